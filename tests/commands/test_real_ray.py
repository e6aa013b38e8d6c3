"""Ray for real: jobs on a head of the test's own, submitted by blueprints; its prefixes as it writes them today."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.engines.ray.head import PATIENCE_S, PLAIN, RAY, REPO

pytestmark = [pytest.mark.real, pytest.mark.waits]

TALK = REPO / "tests" / "real" / "ray_talk.py"


@pytest.fixture
def address(bench: Any, ray_head: Any) -> str:
    """Where jobs are submitted."""
    bench.env |= PLAIN
    return str(ray_head.address)


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
    assert (last["verdict"], last["failure"], last["returncode"]) == ("crash", "program", 1)
    found = bench.ask("metrics", started["run"])
    assert [(step["step"], step["metrics"]["train/kl_loss"]) for step in found["steps"]] == [
        (0, 0),
        (1, 0.001),
        (2, 0.002),
    ]
    assert [(v["step"], v["metrics"]["eval/aime"]) for v in found["validations"]] == [(2, 0.1333)]
