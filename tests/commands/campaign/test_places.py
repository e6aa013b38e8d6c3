"""Campaigns whose runs go elsewhere: the same rows, the same guarantees."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system


def test_a_mixed_pool(camp: Any, jobs: Any) -> None:
    camp.recipe(mode="hold")
    camp.bench.git("commit", "-qam", "hold")
    keys = {"space": {"lr": [0.5, 0.2]}, "proposer": "grid", "confirm": False}
    camp.start("--launcher", "local:1,slurm:1", **keys, count=1, baseline=3)
    camp.until(lambda: len(camp.state().live) == 2 and len(jobs.records()) == 1)
    shown = camp.bench.ask("campaign", "status", camp.place.path.name)["running"]
    assert sorted(str(one["place"]) for one in shown) == ["None", "slurm"]
    camp.go.touch()
    state = camp.over()
    assert sorted(row.launcher for row in state.rows) in (["slurm", "slurm", "tmux"], ["slurm", "tmux", "tmux"])
    assert all(row.ending == "finished" for row in state.rows)


def test_what_a_scheduler_does_to_a_run_is_no_fault_of_the_idea(camp: Any, jobs: Any) -> None:
    camp.recipe(mode="hold")
    camp.bench.git("commit", "-qam", "hold")
    camp.start("--launcher", "slurm:1", space={"lr": [0.5, 0.2]}, proposer="grid", confirm=False, count=1, baseline=1)
    camp.until(lambda: [run for _, run in camp.state().live if "first_step" in _events(run.run_dir)])
    _preempt(jobs)
    camp.until(lambda: len(jobs.records()) == 2)
    camp.go.touch()
    state = camp.over()
    first, second = state.rows
    assert (first.ending, first.failure) == ("lost", "preempted") and second.ending == "finished"
    assert (first.status, first.standing, second.standing) == ("crash", "pending", "keep")
    assert first.replicate == second.replicate and state.baseline.status == "keep"


def test_what_a_scheduler_interrupted_goes_on_from_its_checkpoint(camp: Any, jobs: Any) -> None:
    path = camp.bench.repo / "exp.md"
    path.write_text(path.read_text() + "- resume: true\n")
    camp.recipe(mode="hold")
    camp.bench.git("commit", "-qam", "hold, and go on")
    keys = {"space": {"lr": [0.5, 0.2]}, "proposer": "grid", "confirm": False, "max_machine_retries": 1}
    camp.start("--launcher", "slurm:1", **keys, count=1, baseline=1)
    for _ in range(2):  # the second run is preempted too, and one more is not owed
        ended = len(camp.state().rows)
        camp.until(lambda: [run for _, run in camp.state().live if "first_step" in _events(run.run_dir)])
        _preempt(jobs)
        camp.until(lambda before=ended: len(camp.state().rows) > before)
    camp.phase("paused")
    first, second = camp.state().rows
    assert [(row.failure, row.replicate, row.index) for row in (first, second)] == [("preempted", 1, 1)] * 2
    checkpoint = f"{first.result_dir}/checkpoints/global_step_1"
    assert f"Resuming from {checkpoint}" in camp.log(second) and "Resuming" not in camp.log(first)
    told = Path(second.result_dir, "experiment_log.md").read_text()
    assert f"the machine ended {first.run_id}: goes on from its last checkpoint, {first.result_dir}/checkpoints" in told
    assert len(jobs.records()) == 2


def _preempt(jobs: Any) -> None:
    """The last job is told to make room, as a scheduler does it."""
    native = jobs.records()[-1]["native"]
    jobs.say(native, word="PREEMPTED", ending="lost", cause="preempted", reason="the job was preempted", outranks=True)
    os.kill(jobs.pid(native), signal.SIGTERM)


def _events(run_dir: str) -> str:
    path = Path(run_dir, "events.jsonl")
    return path.read_text() if path.exists() else ""


def test_a_controller_that_is_killed_finds_its_jobs_again(camp: Any, jobs: Any) -> None:
    camp.recipe(mode="hold")
    camp.bench.git("commit", "-qam", "hold")
    camp.start("--launcher", "slurm:2", space={"lr": [0.5, 0.2]}, proposer="grid", confirm=False, count=1, baseline=2)
    camp.until(lambda: [jobs.lives(job["native"]) for job in jobs.records()] == [True, True])
    camp.kill()
    camp.go.touch()
    camp.bench.ask("campaign", "resume", camp.place.path.name, "--detach")
    state = camp.over()
    assert len(jobs.records()) == 2 == len(state.rows) and {row.ending for row in state.rows} == {"finished"}


def test_nobody_answers_for_a_while(camp: Any, jobs: Any) -> None:
    """What waits in a queue cannot be seen then; what trains can, in its files, and ends without the scheduler."""
    held, silent = jobs.directory / "held", jobs.directory / "silent.jobs"
    held.touch()
    camp.recipe(mode="hold")
    camp.bench.git("commit", "-qam", "hold")
    camp.start("--launcher", "slurm:1", space={"lr": [0.5, 0.2]}, proposer="grid", confirm=False, count=1, baseline=2)
    name = camp.place.path.name
    camp.until(lambda: [one["state"] for one in _running(camp, name)] == ["pending"])
    silent.touch()
    told = [("unreachable", "nobody answers")]
    camp.until(lambda: [(one["state"], one["reason"]) for one in _running(camp, name)] == told)
    silent.unlink()
    held.unlink()
    camp.until(lambda: [run for _, run in camp.state().live if "first_step" in _events(run.run_dir)])
    silent.touch()
    camp.go.touch()
    camp.until(lambda: camp.state().rows)
    silent.unlink()
    state = camp.over()
    assert [row.ending for row in state.rows] == ["finished"] * 2 and len(jobs.records()) == 2
    lines = Path(state.rows[0].log_path).with_name("events.jsonl").read_text().splitlines()
    words = [json.loads(line)["event"] for line in lines]
    assert words.count("unreachable") == 1 == words.count("recovered")


def _running(camp: Any, name: str) -> list[dict[str, Any]]:
    found = camp.bench.ask("campaign", "status", name)["running"]
    assert isinstance(found, list)
    return found
