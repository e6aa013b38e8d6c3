"""Ray for real: jobs on a head of the test's own, submitted by blueprints; its prefixes as it writes them today."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real

REPO = Path(__file__).parents[2]
RAY = REPO / ".venv-ray"
TALK = REPO / "tests" / "real" / "ray_talk.py"
PATIENCE_S = 600.0  # for a cluster that starts, and for a job on it, on a machine that is busy
PLAIN = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


def end(mark: str) -> None:
    """End every process that carries a mark in its environment, until none is left."""
    deadline = time.monotonic() + 60
    while left := [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if carries(pid, mark)]:
        assert time.monotonic() < deadline, f"cannot be ended: {left}"
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def carries(pid: int, mark: str) -> bool:
    """Whether a process that is no zombie has the mark in its environment."""
    try:
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def takes_jobs(address: str) -> None:
    """Wait until a job is taken: for a while a new head answers 500, `No available agent to submit job`."""
    body = json.dumps({"entrypoint": "true"}).encode()
    job = urllib.request.Request(f"{address}/api/jobs/", body, {"Content-Type": "application/json"})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(job, timeout=60):
                return
        except OSError as error:
            assert time.monotonic() < deadline, error
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            time.sleep(0.5)


@pytest.fixture(scope="module")
def head() -> Iterator[str]:
    """A Ray head with its Jobs API; all of it is ended by pid, found by a mark that no run of a test carries."""
    if not (RAY / ".installed").exists():
        pytest.skip("Ray is not installed: `make ray` says why not")
    home, mark = tempfile.mkdtemp(prefix="ar-"), uuid.uuid4().hex  # short: a Unix socket's path has 107 bytes
    port, client, dashboard, agent, agent_grpc, metrics = free_ports(6)
    words = ["start", "--head", "--node-ip-address=127.0.0.1", "--num-cpus=8", "--disable-usage-stats"]
    words += [f"--port={port}", f"--ray-client-server-port={client}", "--object-store-memory=100000000"]
    words += ["--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", f"--temp-dir={home}/r"]
    words += [f"--dashboard-agent-listen-port={agent}", f"--dashboard-agent-grpc-port={agent_grpc}"]
    words += [f"--metrics-export-port={metrics}"]
    env = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "AUTORESEARCH_TEST": mark, **PLAIN}
    try:
        with open(f"{home}/said", "wb") as said:  # no pipe: the daemons would hold it open
            command = [RAY / "bin" / "python", RAY / "bin" / "ray", *words]
            done = subprocess.run(command, env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        assert done.returncode == 0, Path(f"{home}/said").read_text()
        address = f"http://127.0.0.1:{dashboard}"
        takes_jobs(address)
        yield address
    finally:
        end(mark)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def address(bench: Any, head: str) -> str:
    """Where jobs are submitted."""
    bench.env |= PLAIN
    return head


def submits(bench: Any, address: str, trainer: str, program: str, metric: str) -> Path:
    """A blueprint that submits a job as the frameworks' own scripts do."""
    python = str(RAY / "bin" / "python")
    path = bench.blueprint(
        name=f"{trainer}.md",
        title=f"Job of {trainer}",
        command=f"ray job submit --address={address} -- {python} {program}",
        python=python,
        trainer=trainer,
        result_dir=str(bench.root / f"results-{trainer}"),
    )
    path.write_text(path.read_text().replace("task_pass_rate@1", metric))
    return Path(path)


def finishes(bench: Any, blueprint: Path) -> dict[str, Any]:
    started = bench.ask("run", blueprint, "--detach")
    bench.until((Path(started["run_dir"]) / "collected.json").exists, PATIENCE_S)
    bench.settled(started, "finished")
    return dict(bench.ask("status", started["run"]))


def test_jobs_of_slime_and_openrlhf(bench: Any, address: str) -> None:
    """Through Ray's prefixes, colours and repeat marks, the metrics of the actors are read."""
    slime = finishes(bench, submits(bench, address, "slime", f"{TALK} slime", "eval/aime"))
    assert (slime["metrics"]["eval/aime"], slime["metrics"]["step"]) == (0.1333, 2)
    assert slime["first_step_s"] is not None
    openrlhf = finishes(bench, submits(bench, address, "openrlhf", f"{TALK} openrlhf", "reward"))
    assert (openrlhf["metrics"]["reward"], openrlhf["metrics"]["step"]) == (0.3, 3)
    logged = Path(openrlhf["log_path"]).read_bytes()
    assert b"(PPOTrainer pid=" in logged and b"x across cluster]" in logged


def jobs(address: str) -> dict[str, str]:
    """The jobs that the head knows by a name, and how they are."""
    with urllib.request.urlopen(f"{address}/api/jobs/", timeout=60) as answer:
        known = json.load(answer)
    return {job["submission_id"]: job["status"] for job in known if job.get("submission_id")}


def test_a_job_that_is_stopped_ends_on_the_cluster_too(bench: Any, address: str) -> None:
    """The session holds a client only: the job itself is named like the session, and ended by that name."""
    started = bench.ask("run", submits(bench, address, "slime", f"{TALK} slime --hold", "eval/aime"), "--detach")
    bench.event(started["run_dir"], "validation")
    assert jobs(address)[started["session"]] == "RUNNING"
    bench.ask("stop", started["run"], "--reason", "enough")
    bench.until((Path(started["run_dir"]) / "collected.json").exists, PATIENCE_S)
    bench.settled(started, "stopped")
    bench.until(lambda: jobs(address)[started["session"]] == "STOPPED")


def test_a_job_that_fails(bench: Any, address: str) -> None:
    """Its client fails with it and prints the end of the log again: each step counts once, the actor is to blame."""
    blueprint = submits(bench, address, "slime", f"{TALK} slime --fail", "eval/aime")
    started = bench.ask("run", blueprint, "--detach")
    bench.until((Path(started["run_dir"]) / "collected.json").exists, PATIENCE_S)
    bench.settled(started, "crashed")
    last = bench.ask("status", started["run"])
    assert (last["verdict"], last["failure"], last["returncode"]) == ("crash", "python_error", 1)
    found = bench.ask("metrics", started["run"])
    assert [(step["step"], step["metrics"]["train/kl_loss"]) for step in found["steps"]] == [
        (0, 0),
        (1, 0.001),
        (2, 0.002),
    ]
    assert [(v["step"], v["metrics"]["eval/aime"]) for v in found["validations"]] == [(2, 0.1333)]
