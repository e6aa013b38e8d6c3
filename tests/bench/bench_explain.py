"""From a failure to `explain`'s answer: the run has ended, this is its class, that is the line.

A traceback: from just before it is raised to the answers of `autoresearch wait RUN`, `autoresearch explain RUN`,
both as new processes, beside the published way (a wait script that polls the pane every 2 s), whose answer is only
that the pane is idle. An engine that dies while booting: the same for a run in AgentJet's swarm mode with a server
without a model, from the traceback in the server's log on, against the published client, which asks for the engine's
status every 5 s until it is ROLLING; it never will be, so that the client is ended when it has waited for the bound.
A large log: 5 GB whose last megabytes count, and half a GB of health checks behind the last step.
"""

from __future__ import annotations

import http.server
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from autoresearch.lab.results.explain import explain_log
from autoresearch.records.rundir import RunDir
from autoresearch.trainers.verl import Verl
from tests.bench import published
from tests.bench.result import Result
from tests.bench.yard import Tmux, World, private_tmux, python, until

SWARM_SAMPLES = Path(__file__).parents[1] / "samples" / "swarm"
BOUND_S = 15.0  # so long we look on while the published client waits
RAISES = """
import sys, time
print("step:1 - actor/kl_loss:0.1 - actor/pg_loss:0.2", flush=True)
time.sleep(float(sys.argv[2]))
open(sys.argv[1], "w").write(str(time.time()))
raise KeyError("ground_truth")
"""
SWARM = """- trainer: agentjet_swarm
- swarm_server: python fake_swarm_server.py --swarm-port=$AJET_SWARM_PORT --fault boot_failure
- swarm_poll: 0.1 s
"""
CLIENT = """
import json, sys, time, urllib.request
began = time.time()
while True:
    status = json.load(urllib.request.urlopen(sys.argv[1] + "/get_engine_status"))["engine_status"]
    if status == "ENGINE.ROLLING":
        break
    print(f"Current engine status (already waited {time.time() - began:.0f}s): {status}", flush=True)
    time.sleep(5)
"""
CHAT = b'(SGLangEngine pid=3302) INFO:     10.0.0.5:57752 - "GET /health HTTP/1.1" 200 OK\n'
OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def run(repeats: int = 5) -> list[Result]:
    """Seconds to an answer; for the logs seconds and megabytes."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        (place / "raises.py").write_text(RAISES)
        world = World.make(place / "w", _client_and_server)
        tracebacks = [_traceback(place, world, turn) for turn in range(repeats)]
        boots = [_boot(world, turn) for turn in range(repeats)]
        with private_tmux(place) as tmux:
            idle = [_published_traceback(place, tmux, turn, (turn + 0.5) / repeats) for turn in range(repeats)]
        waited = _published_client()
        logs = _logs(place, repeats)
    how = "`wait` and `explain`: state ended, kind, line"
    return [
        Result(
            f"a traceback: {how}",
            "2 s poll: the pane is idle",
            tracebacks,
            idle,
            3,
            "s",
            absolute=True,
            note="theirs knows no class",
            reached=1.34,
        ),
        Result(
            f"an engine that dies while booting: {how}",
            "published client",
            boots,
            [waited] * len(boots),
            0.5,
            "s",
            note=f"theirs still waits when it is ended after {BOUND_S:.0f} s",
            reached=0.214,
        ),
        *logs,
    ]


def _client_and_server(repo: Path) -> None:
    for path in SWARM_SAMPLES.glob("*.py"):
        shutil.copy(path, repo)


def _traceback(place: Path, world: World, turn: int) -> float:
    """Seconds from a traceback to the explanation of a run that has ended."""
    stamp = place / f"raises{turn}.stamp"
    rundir = world.run(f"raises{turn}", f"{sys.executable} {place}/raises.py {stamp} 1.5")
    until(rundir.runner.exists)
    _explained(rundir, "code")
    return time.time() - float(stamp.read_text())


def _boot(world: World, turn: int) -> float:
    """Seconds from an engine's death while it boots, as its server's log tells it."""
    path = world.blueprint(f"boot{turn}", "python agent_roll.py steps=3")
    path.write_text(path.read_text().partition("- trainer:")[0] + SWARM)
    rundir = RunDir(Path(world.begin(path).run_dir))
    until(lambda: any(b"Traceback" in log.read_bytes() for log in rundir.path.rglob("run.log")))
    died = time.time()
    _explained(rundir, "environment")
    return time.time() - died


def _explained(rundir: RunDir, wanted: str) -> None:
    """Ask as a person or an agent does: wait until it has ended, then why."""
    while json.loads(_ours("wait", str(rundir.path), "--for", "60s"))["state"] != "ended":
        pass
    found = json.loads(_ours("explain", str(rundir.path)))
    assert (found["state"], found["failure"]) == ("ended", wanted), found


def _ours(*words: str) -> str:
    argv = [sys.executable, "-m", "autoresearch", *words, "--json"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def _published_traceback(place: Path, tmux: Tmux, turn: int, phase: float) -> float:
    """Seconds from the failure until the wait script knows that something is over."""
    stamp = place / f"theirs{turn}.stamp"
    length = published.POLL_S * (1 + phase)
    published.start(tmux.socket, f"turn{turn}", f"{sys.executable} {place}/raises.py {stamp} {length:.2f}")
    until(lambda: not published.pane_is_idle(tmux.socket, f"turn{turn}"))
    published.poll_until_idle(tmux.socket, f"turn{turn}")
    return time.time() - float(stamp.read_text())


class _Offline(http.server.BaseHTTPRequestHandler):
    """A swarm server whose engine died while booting."""

    def do_GET(self) -> None:
        body = json.dumps({"engine_status": "ENGINE.OFFLINE"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def _published_client() -> float:
    """Seconds that the published client had waited when it was ended; it must still be waiting."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Offline) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        began = time.monotonic()
        with python(CLIENT, f"http://127.0.0.1:{server.server_address[1]}") as client:
            while time.monotonic() < began + BOUND_S:
                assert client.poll() is None, "the published client gave up"
                time.sleep(0.1)
            client.kill()
        server.shutdown()
    return time.monotonic() - began


def _logs(place: Path, repeats: int) -> list[Result]:
    large, chatty = place / "large.log", place / "chatty.log"
    steps = b"".join(b"step:%d - actor/pg_loss:0.1 - actor/kl_loss:0.01\n%s" % (n, CHAT * 20) for n in range(1, 400))
    with large.open("wb") as file:
        file.truncate(5_000_000_000)  # a hole: what lies before the last steps is never read
        file.seek(0, 2)
        file.write(steps + OOM)
    with chatty.open("wb") as file:
        file.write(steps + OOM)
        for _ in range(500):
            file.write(CHAT * 12_500)
    results = []
    names = {large: "explain a log of 5 GB", chatty: "explain half a GB of health checks behind the last step"}
    for log, what in names.items():
        took, grown = [], []
        for _ in range(repeats):
            before, began = _peak_mb(), time.process_time()
            cause = explain_log(log, Verl(), 8).diagnosis.cause
            took.append(time.process_time() - began)
            grown.append(_peak_mb() - before)
            assert cause is not None
            assert cause.kind == "memory"
        goal, reached = (1.0, 0.27) if log is large else (10.0, 2.0)
        results.append(Result(f"{what}: CPU", "", took, [], goal, "s", reached=reached))
        results.append(Result(f"{what}: peak memory grows by", "", grown, [], 40, "MB"))
    return results


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
