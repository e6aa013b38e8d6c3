"""Runs at another place, through the command: a launcher of the tests; Runners and whoever looks are real processes."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from autoresearch.runner.basics import is_locked
from tests.commands.elsewhere import RunsElsewhere

pytestmark = pytest.mark.system


class FarBench(RunsElsewhere):
    """A bench whose place `slurm` is the launcher of the tests, in every process that it starts."""

    def __init__(self, bench: Any, jobs: Any) -> None:
        super().__init__(bench, "slurm")
        self.jobs = jobs

    def reaches(self, payload: dict[str, Any], state: str) -> None:
        self.bench.until(lambda: self.state(payload) == state)

    def watched(self, payload: dict[str, Any]) -> bool:
        """Whether its session looks at it, waited for."""
        return bool(self.bench.until(lambda: is_locked(self.dir(payload).watched)))

    def silent(self, reason: str = "the link is down") -> None:
        told = self.jobs.directory / "silent.new"
        told.write_text(reason)
        told.replace(self.jobs.directory / "silent")  # nobody reads half of it

    def answers(self) -> None:
        (self.jobs.directory / "silent").unlink()


@pytest.fixture
def far(bench: Any, jobs: Any) -> FarBench:
    return FarBench(bench, jobs)


def test_a_run_elsewhere_from_order_to_row(far: FarBench) -> None:
    first = far.run("ok")
    row = far.row(first)
    assert (row["ending"], row["job_id"], row["metric_value"]) == ("finished", "1", "0.5")
    assert row["launcher"].startswith("slurm")
    assert far.bench.ask("status", first["run"])["ending"] == "finished"
    assert "hello from the trainer" in "\n".join(far.bench.ask("logs", first["run"])["lines"])
    assert json.loads((Path(first["result_dir"]) / "finish.flag").read_text())["ending"] == "finished"
    end = json.loads(far.dir(first).exit_record.read_text())
    assert (end["job"], end["node"]) == ("1", "here") and end["queue_s"] < 60
    far.bench.until(lambda: not far.bench.followers())
    assert first["session"] in far.bench.tmux("list-sessions").stdout, "its pane stays readable"


def test_a_run_elsewhere_outlives_its_session_tmux_and_the_link(far: FarBench) -> None:
    payload = far.run("long")
    far.bench.event(payload["run_dir"], "first_step")
    for place in ("slurm", "local"):  # it is not started again
        words = ("run", "long.md", "--launcher", place, "--detach")
        code, out, _ = far.bench.here(*words)
        assert code == 0 and f"{payload['run']} is already running at slurm" in out
        assert far.bench.ask(*words)["place"] == "slurm"

    name = far.bench.ask("status", payload["run"])["session"]
    assert far.bench.ask("attach", payload["run"])["session"] == name
    far.bench.until(lambda: "hello from the trainer" in far.bench.tmux("capture-pane", "-p", "-t", f"={name}:").stdout)
    far.bench.tmux("kill-session", "-t", f"={name}")
    assert far.jobs.lives("1") and far.state(payload) == "running"
    assert far.bench.ask("attach", payload["run"])["session"] == name
    assert name in far.bench.tmux("list-sessions").stdout

    for look in (["status"], ["status", payload["run"]], ["wait", payload["run"], "--for", "0s"]):
        assert far.watched(payload), look
        far.bench.end_followers(signal.SIGKILL)
        far.bench.here(*look)
    assert far.watched(payload)
    far.bench.until(lambda: len(far.bench.followers()) == 1)  # for a moment a child of one looks like it

    server = [p for p in far.bench.reaper.find() if p.is_tmux_server]
    os.kill(server[0].pid, signal.SIGKILL)
    far.bench.until(lambda: not server[0].lives() and not far.bench.followers())  # what its panes held ends after it
    far.bench.here("status")
    assert far.watched(payload) and far.jobs.lives("1")

    seq = far.bench.ask("wait", payload["run"], "--for", "0s")["seq"]
    far.silent()
    said = far.bench.ask("wait", payload["run"], "--for", "100s", "--since", seq)
    assert (said["event"], said["state"], said["reason"]) == ("unreachable", "unreachable", "the link is down")
    assert abs(said["unreachable_since"] - time.time()) < 300
    text = far.bench.here("status", payload["run"])[1]
    assert "no answer since" in text and "the link is down (wait for it)" in text
    told = far.bench.ask("explain", payload["run"])
    assert "does not answer; it may still be running: the link is down" in told["how"]
    for _ in range(2):
        asked = far.bench.ask("stop", payload["run"], "--reason", "enough")
        assert asked["state"] == "unreachable" and asked["place"] == "slurm"
    assert "does not answer" in far.bench.here("stop", payload["run"], "--reason", "enough")[1]
    assert far.jobs.lives("1"), "nobody ended it"
    far.answers()
    assert far.row(payload)["ending"] == "stopped" and len(far.jobs.records()) == 1


def test_waiting_in_a_queue_is_told_and_is_no_time_of_the_run(far: FarBench) -> None:
    (far.jobs.directory / "held").write_text("Resources")
    payload = far.run("long")
    far.reaches(payload, "pending")
    said = far.bench.ask("status", payload["run"])
    assert (said["state"], said["place"], said["job"], said["reason"]) == ("pending", "slurm", "1", "Resources")
    assert said["elapsed_s"] == 0 and said["deadline_s"] == 600 and said["queue_s"] >= 0
    lines = far.bench.here("status")[1]
    assert "1 run: 1 pending" in lines and "Resources" in lines
    waited = far.bench.ask("wait", payload["run"], "--for", "1s", "--since", "0")
    assert waited["event"] == "pending" and waited["reason"] == "Resources"
    assert "how: it waits in the queue of its target: Resources" in far.bench.here("explain", payload["run"])[1]
    stopped = far.bench.ask("stop", payload["run"], "--reason", "never mind", check=None)
    assert stopped["ending"] == "stopped"
    assert far.row(payload)["ending"] == "stopped"


def test_a_place_that_is_silent_now_is_told_of_before_a_run_goes_there(far: FarBench) -> None:
    far.silent()
    blueprint = far.bench.blueprint("ok")
    for words in (("--dry-run",), ("--detach",)):
        code, out, err = far.bench.here("run", blueprint, "--launcher", "slurm", *words)
        assert code == 0 and "slurm: it does not answer: the link is down" in out + err
        assert "runs that are ordered now wait until it answers" in out + err
    far.bench.ask("stop", "last", "--reason", "enough", "--no-wait")
    (far.jobs.directory / "silent").unlink()
    far.bench.until(lambda: far.bench.ask("wait", "last", "--for", "1s", check=None)["state"] == "ended")


def test_what_is_typed_to_run_it_again_names_its_place(far: FarBench) -> None:
    payload = far.run("rc3")
    assert far.row(payload)["status"] == "crash"
    for looked in (far.bench.ask("wait", payload["run"], check=None), far.bench.ask("explain", payload["run"])):
        assert f" --launcher slurm --fix-of {payload['run']} " in looked["next"][-1]


def test_killed_where_it_was_just_ordered(far: FarBench) -> None:
    blueprint = far.bench.blueprint("ok")
    words = ["run", blueprint, "--launcher", "slurm", "--detach"]
    far.bench.cli(*words, check=None, AUTORESEARCH_FAILPOINT="launch.ordered:kill")
    assert not far.jobs.records()
    (living,) = far.bench.ask("status")["runs"]
    payload = {**living, "ledger": str(next(far.bench.root.rglob("results.tsv"), ""))}
    far.bench.until((far.dir(payload).path / "collected.json").exists)
    assert len(far.jobs.records()) == 1
    assert far.bench.ask("status", living["run"])["ending"] == "finished"


@pytest.mark.parametrize("broken", ["place", "order"])
def test_a_stop_that_nobody_can_pass_on_comes_back(far: FarBench, broken: str) -> None:
    payload = far.run("long")
    far.bench.event(payload["run_dir"], "first_step")
    far.bench.end_followers(signal.SIGKILL)
    place, order = far.jobs.directory, far.dir(payload).order
    spoilt = place if broken == "place" else order
    spoilt.rename(spoilt.with_name("away"))
    spoilt.write_text("nobody can be asked here")
    try:
        said = far.bench.ask("stop", payload["run"], "--reason", "enough", check=None)
        assert (said["run"], said["state"]) == (payload["run"], "unreachable")
        assert "is stopped as soon as it does" in far.bench.here("stop", payload["run"], "--reason", "enough")[1]
    finally:
        spoilt.unlink()
        spoilt.with_name("away").rename(spoilt)
    assert far.bench.ask("stop", payload["run"], "--reason", "enough", check=None)["ending"] == "stopped"


def test_nobody_looks_and_the_next_look_records_it(far: FarBench) -> None:
    payload = far.run("ok")
    far.bench.end_followers(signal.SIGKILL)
    far.bench.until(lambda: not far.jobs.lives("1"))
    record = far.dir(payload).collected  # what was looked at just now is not looked at again
    far.bench.until(lambda: far.bench.here("status") and record.exists())
    assert far.row(payload)["ending"] == "finished"
    assert json.loads((Path(payload["result_dir"]) / "finish.flag").read_text())["ending"] == "finished"


def test_a_refusal_is_the_answer_of_the_command(far: FarBench) -> None:
    (far.jobs.directory / "declines").write_text("no such partition")
    blueprint = far.bench.blueprint("ok")
    code, out, err = far.bench.here("run", blueprint, "--launcher", "slurm", "--detach")
    assert code and "no such partition" in out + err
    assert far.bench.ask("status", "last")["ending"] == "launch_failed" and not far.bench.followers()


@pytest.mark.parametrize(
    ("word", "ending", "cause", "failure"),
    [
        ("PREEMPTED", "lost", "preempted", "preempted"),
        ("NODE_FAIL", "lost", "node_failed", "node_failed"),
        ("OUT_OF_MEMORY", "crashed", "memory", "memory"),
        ("TIMEOUT", "max_time", "walltime", "exp_max_time"),
    ],
)
def test_a_scheduler_s_word_becomes_ending_and_failure(
    far: FarBench, word: str, ending: str, cause: str, failure: str
) -> None:
    """Which word is which: `tests/launchers/test_slurm.py` and `test_kubernetes_states.py`."""
    payload = far.run("long")
    far.bench.event(payload["run_dir"], "first_step")
    far.jobs.say("1", word=word, ending=ending, cause=cause, reason=f"it says {word}", outranks=True)
    far.jobs.kill("1")
    row = far.row(payload)
    assert (row["ending"], row["failure"]) == (ending, failure)
    assert f"it says {word}" in far.dir(payload).exit_record.read_text()
