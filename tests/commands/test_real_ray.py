"""Ray for real: jobs on a head of the test's own, submitted by blueprints; its prefixes as it writes them today."""

from __future__ import annotations

import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real

REPO = Path(__file__).parents[2]
RAY = REPO / ".venv-ray"
TALK = REPO / "tests" / "real" / "ray_talk.py"


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def ray(bench: Any, *words: str, **env: str) -> str:
    """What a `ray` command says; it has to succeed."""
    command = [RAY / "bin" / "python", RAY / "bin" / "ray", *words]
    done = subprocess.run(
        command,
        env=bench.env | env,
        cwd=bench.root,
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def address(bench: Any, clean_environment: Path) -> Iterator[str]:
    """A Ray head with its Jobs API; all of it is ended by pid, found by a mark that no run of the test carries."""
    if not (RAY / ".installed").exists():
        pytest.skip("Ray is not installed: `make ray` says why not")
    bench.env |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(REPO)}
    port, client, dashboard, agent, agent_grpc, metrics = free_ports(6)
    words = ["start", "--head", "--node-ip-address=127.0.0.1", "--num-cpus=8", "--disable-usage-stats"]
    words += [f"--port={port}", f"--ray-client-server-port={client}", "--object-store-memory=100000000"]
    words += ["--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", f"--temp-dir={clean_environment / 'ray'}"]
    words += [f"--dashboard-agent-listen-port={agent}", f"--dashboard-agent-grpc-port={agent_grpc}"]
    words += [f"--metrics-export-port={metrics}"]
    own = type(bench.reaper)(mark=uuid.uuid4().hex)
    try:
        ray(bench, *words, AUTORESEARCH_TEST=own.mark)
        yield f"http://127.0.0.1:{dashboard}"
    finally:
        own.sweep()


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
    bench.until((Path(started["run_dir"]) / "collected.json").exists)
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
