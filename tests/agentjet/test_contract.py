"""What a swarm server does that our programs and their tests lean on: each line of the contract is one assertion.

The stand-in is started for it. `AJET_CONTRACT_COMMAND='.../python -m ajet.swarm_cli start --swarm-port={port}'` starts
a real one instead, and `AJET_CONTRACT_URL=http://host:10086` asks one that is there already, whose engine must be off
(its log and its processes are then not looked at). `AJET_CONTRACT_CONFIG` is the YAML that a real one can boot from.
Written from charlesHsuGG/AgentJet at af6b611. No episode of a `train` client is ended while the engine rolls: a real
server then waits for a trainer that is not there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autoresearch.agentjet.engine import parse_poll
from tests.engines.ports import free_port

pytestmark = pytest.mark.system

STAND_IN = Path(__file__).parents[1] / "samples" / "swarm" / "fake_swarm_server.py"
CONFIG = "ajet:\n  model:\n    path: /models/tiny\n"
OUTPUT = {"reward": 0.5, "metadata": {"task_id": "t"}}
POOL = {
    "sample_collection_method": "rollout_until_finish_enough_tasks",
    "completed_episodes": 11,
    "completed_episode_target": 4,
    "completed_tasks": 2,
    "completed_task_target": 2,
    "completed_tasks_rewards": {"t": [0.5, 1.0]},
}


@dataclass(frozen=True)
class Answer:
    """One answer of the server: its status, its content type, and the object or text."""

    status: int
    kind: str
    body: Any


@dataclass
class Heard:
    """What was asked in one session with a server, in order, and what it answered."""

    url: str
    log: Path | None
    answers: dict[str, Answer] = field(default_factory=dict)
    processes: dict[str, Any] = field(default_factory=dict)

    def ask(self, name: str, path: str, body: object = None, raw: bytes = b"") -> Answer:
        """Ask, and keep the answer under a name."""
        data = raw or (None if body is None else json.dumps(body).encode())
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            reply = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            reply = error
        with reply:
            text, kind = reply.read().decode(), str(reply.headers.get("Content-Type"))
        answer = Answer(reply.status or 0, kind, json.loads(text) if kind.startswith("application/json") else text)
        self.answers[name] = answer
        return answer

    def status(self, status: str, step: int | None = None) -> None:
        """What the engine tells."""
        self.ask(f"told {status}", "/update_engine_status", {"engine_status": f"ENGINE.{status}", "global_step": step})

    def episode(self, name: str, path: str, key: str, **more: object) -> Answer:
        """A client's word about an episode."""
        body = {"client_uuid": "c", "episode_uuid": key, "workflow_output": OUTPUT, "task_id": "t"}
        return self.ask(name, path, {**body, **more})

    def claim(self, name: str, kind: str = "eval") -> Answer:
        """Claim an episode."""
        body = {"client_uuid": "c", "episode_type": kind, "discard_episode_timeout": 60.0}
        return self.ask(name, "/claim_episode", body)

    def pool(self, name: str) -> Answer:
        """Ask for the pool."""
        return self.ask(name, "/get_current_batch_rollout_pool_information")


def session(heard: Heard, until: Callable[[Callable[[], object]], None]) -> None:
    """The questions, in an order that leaves the engine off at the end."""
    heard.ask("health", "/health")
    heard.ask("status", "/get_engine_status")
    heard.pool("pool before")
    heard.ask("no path", "/nowhere")
    heard.ask("start without config", "/start_engine", {})
    heard.ask("malformed", "/claim_episode", {})
    heard.ask("no json", "/claim_episode", raw=b"zz")
    heard.ask("bad status", "/update_engine_status", {"engine_status": "ENGINE.SLEEPING"})
    heard.ask("register too early", "/register_episode", {"episode_uuid": "e0"})
    heard.status("ROLLING", 1)
    heard.claim("claim without episodes")
    for key in ("e1", "e2", "e3"):
        heard.ask("register", "/register_episode", {"episode_uuid": key, "openai_base_url": "u", "openai_api_key": "k"})
    first = heard.claim("claim").body["episode_uuid"]
    heard.pool("pool with a claim")
    heard.episode("end by another", "/end_episode", first, client_uuid="d")
    heard.episode("end without a task", "/end_episode", first, workflow_output={"reward": 1.0, "metadata": {}})
    heard.episode("end of nothing", "/end_episode", "e9")
    heard.episode("end unclaimed", "/end_episode", "e3")
    path = "/update_current_batch_rollout_pool_information_and_fetch_instruction"
    heard.ask("push", path, POOL)
    heard.pool("pool pushed")
    heard.status("ROLLING_POST")
    heard.episode("end after rolling", "/end_episode", first)
    heard.status("WEIGHT_SYNCING")
    heard.episode("end while syncing", "/end_episode", "e3")
    heard.episode("abort while syncing", "/abort_episode", "e3")
    heard.pool("pool while syncing")
    heard.status("ROLLING", 2)
    heard.pool("pool of the next step")
    heard.ask("sync while rolling", "/sync_train_config", {"yaml_as_string": CONFIG})
    heard.ask("start while rolling", "/start_engine", {})
    heard.ask("stop", "/stop_engine", {})
    heard.ask("status stopped", "/get_engine_status")
    heard.pool("pool stopped")
    config = Path(os.environ["AJET_CONTRACT_CONFIG"]).read_text() if "AJET_CONTRACT_CONFIG" in os.environ else CONFIG
    heard.ask("sync", "/sync_train_config", {"yaml_as_string": config})
    heard.ask("start", "/start_engine", {})
    heard.pool("pool booting")
    if heard.log:
        look_at_the_engine(heard)
    until(lambda: heard.pool("later").body["engine_status"] == "ENGINE.OFFLINE")
    heard.ask("booted", "/get_engine_status")
    heard.ask("stop again", "/stop_engine", {})


def look_at_the_engine(heard: Heard) -> None:
    """The group of the engine's process, while it boots."""
    with contextlib.suppress(ProcessLookupError):
        heard.processes["engine's group"] = os.getpgid(heard.answers["start"].body["pid"])


def look_at_the_processes(heard: Heard, process: subprocess.Popen[bytes]) -> None:
    """How many there are without an engine, where they listen, and how they end."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    port = f":{int(heard.url.rpartition(':')[2]):04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    heard.processes["address"] = next(w[1].partition(":")[0] for w in lines if w[1].endswith(port) and w[3] == "0A")
    heard.processes["children"] = len(children)
    process.send_signal(signal.SIGINT)
    heard.processes["code"] = process.wait(60)


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heard]:
    """One session with one server."""

    def until(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 120.0
        while not condition():
            assert time.monotonic() < deadline, "the server never came to it"
            time.sleep(0.05)

    if url := os.environ.get("AJET_CONTRACT_URL"):
        one = Heard(url.rstrip("/"), None)
        session(one, until)
        yield one
        return
    directory = tmp_path_factory.mktemp("contract")
    port = free_port()
    usual = f"{shlex.quote(sys.executable)} {STAND_IN} --swarm-port={{port}} --fault boot_failure"
    words = shlex.split(os.environ.get("AJET_CONTRACT_COMMAND", usual).format(port=port))
    log = directory / "server.log"
    with log.open("wb") as file:  # in colours, as a terminal gets them
        environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "LOGURU_COLORIZE")}
        process = subprocess.Popen(words, cwd=directory, env=environment, stdout=file, stderr=file)
    one = Heard(f"http://127.0.0.1:{port}", log)
    try:
        until(lambda: b"running in blocking mode" in log.read_bytes())  # healthy before, but deaf to INT
        session(one, until)
        look_at_the_processes(one, process)
        yield one
    finally:
        process.kill()
        process.wait()


NEVER = "Try again (maybe 1 minute) later."
LINES: list[tuple[str, Callable[[dict[str, Answer]], bool]]] = [
    ("health is ok", lambda a: a["health"].body == {"status": "ok"}),
    ("a status has three fields", lambda a: list(a["status"].body) == _STATUS),
    ("an engine that never ran has no step", lambda a: a["status"].body["global_step"] is None),
    ("the pool is empty until the trainer pushes", lambda a: _of(a["pool before"], *_COUNTS) == ["", 0, 0, 0, 0, {}]),
    ("nobody's episode is null", lambda a: a["pool before"].body["running_episode_details"] is None),
    ("an unknown path is 404", lambda a: (a["no path"].status, a["no path"].body) == (404, {"detail": "Not Found"})),
    ("no config is no error", lambda a: a["start without config"].body == _no("error", "No training config found")),
    ("a malformed body is 422", lambda a: (a["malformed"].status, a["no json"].status) == (422, 422)),
    ("a bad status is no error", lambda a: a["bad status"].body == _no("failure_reason", "Invalid engine status")),
    ("no episode outside of rolling", lambda a: a["register too early"].body["success"] is False),
    ("no claim without an episode", lambda a: a["claim without episodes"].body["fail_cause"] == _NONE),
    ("the first registered is claimed", lambda a: a["claim"].body["episode_uuid"] == "e1"),
    ("a claim has its endpoint", lambda a: _of(a["claim"], "openai_base_url", "openai_api_key") == ["u", "k"]),
    ("a claimed one runs", lambda a: list(a["pool with a claim"].body["running_episode_details"]) == ["e1"]),
    ("a foreign client is 404", lambda a: a["end by another"].status == 404),
    ("and told so", lambda a: _refused(a["end by another"])[1] == _FOREIGN),
    ("no task is 500", lambda a: (a["end without a task"].status, a["end without a task"].body) == _INTERNAL),
    ("an unknown episode is 400", lambda a: _refused(a["end of nothing"]) == (400, "Episode e9 not found.")),
    ("an unclaimed one is 400", lambda a: _refused(a["end unclaimed"])[1].startswith(_LONG)),
    ("the pool overshoots", lambda a: parse_poll({}, a["pool pushed"].body).episodes == (11, 4)),
    ("the pool has rewards", lambda a: a["pool pushed"].body["completed_tasks_rewards"] == {"t": [0.5, 1.0]}),
    ("an end after rolling counts", lambda a: a["end after rolling"].body == {"success": True}),
    ("no end while syncing", lambda a: _refused(a["end while syncing"]) == (400, _SYNCING)),
    ("an abort always succeeds", lambda a: a["abort while syncing"].body == {"success": True}),
    ("no claim outlives rolling", lambda a: a["pool while syncing"].body["running_episode_details"] is None),
    ("the old batch is shown on", lambda a: _of(a["pool of the next step"], *_SHOWN) == [11, 2]),
    ("no config while rolling", lambda a: _refused(a["sync while rolling"]) == (400, _STARTED)),
    ("no start while rolling", lambda a: _refused(a["start while rolling"])[1].endswith("status: ENGINE.ROLLING")),
    ("a stop says so", lambda a: a["stop"].body == {"success": True, "failure_reason": ""}),
    ("a stop leaves the step", lambda a: _of(a["status stopped"], *_STATUS) == ["ENGINE.OFFLINE", None, 2]),
    ("a stop leaves the pool", lambda a: a["pool stopped"].body["completed_episodes"] == 11),
    ("a start has a pid", lambda a: isinstance(a["start"].body["pid"], int)),
    ("a boot has its time", lambda a: isinstance(a["pool booting"].body["booting_start_time"], float)),
    ("a config has its model", lambda a: bool(a["pool booting"].body["training_model_path"])),
    ("a failed boot is off at step 0", lambda a: _of(a["booted"], *_STATUS) == ["ENGINE.OFFLINE", None, 0]),
    ("a stop of nothing succeeds", lambda a: a["stop again"].body["success"] is True),
]
_STATUS = ["engine_status", "engine_status_detail", "global_step"]
_COUNTS = ("sample_collection_method", "completed_episodes", "completed_episode_target", "completed_tasks")
_SHOWN = ("completed_episodes", "global_step")
_COUNTS += ("completed_task_target", "completed_tasks_rewards")
_NONE = f"No available episodes to claim. {NEVER}"
_FOREIGN = "Episode e1 is claimed by different client: c, but got d."
_INTERNAL = (500, "Internal Server Error")
_LONG = "Episode e3 is not in claimed status, maybe you take **too long** to submit the workflow output, try"
_SYNCING = "Engine is not in rolling state. Current status: [ENGINE.WEIGHT_SYNCING]. Cannot end episode."
_STARTED = "Engine is already started. Call `stop_engine` first before syncing new training configuration."


def _of(answer: Answer, *names: str) -> list[Any]:
    return [answer.body[name] for name in names]


def _no(name: str, why: str) -> dict[str, object]:
    return {"success": False, name: why}


def _refused(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.body["detail"]


def test_the_server_answers(heard: Heard) -> None:
    """One test: each process that runs tests would hold a session of its own."""
    assert not [line for line, holds in LINES if not holds(heard.answers)], heard.answers


def test_its_log_and_its_processes(heard: Heard) -> None:
    """Of a server that was started here, as it is in every run of the tiers."""
    if heard.log is None:
        pytest.skip("AJET_CONTRACT_URL: log and processes are elsewhere")
    lines = heard.log.read_text().splitlines()
    (failed,) = [line for line in lines if "No module named 'verl'" in line]  # a boot failure has no traceback
    assert failed.replace("\x1b[0m", "").endswith("Unexpected error: No module named 'verl'")
    (began,) = [line for line in lines if "Successfully started training process" in line]
    cells = [cell.partition("\x1b[0m")[0].rpartition("m")[2] for cell in began.split(" | ")[:2]]
    assert "\x1b[" in began and len(cells[0]) == 5 and cells[1].strip() == "start_engine", "time, function and line"
    assert heard.processes == {
        "engine's group": heard.answers["start"].body["pid"],
        "address": "00000000",  # it listens everywhere
        "children": 1,  # the server is a child of the command
        "code": -signal.SIGTERM,  # an interrupt ends it by a signal to itself: 143 for a shell
    }
