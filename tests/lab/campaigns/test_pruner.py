"""Early stopping: which living runs are asked to end, when, and what is never ended. Files made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.campaign.judgement import pending
from autoresearch.core.run.ending import Ending, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.pruner import Pruner
from autoresearch.records import events, recorded_run
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.rundir import RunDir, read_json

pytestmark = pytest.mark.system

METRIC = "task_pass_rate@1"


class Living:
    """A run that trains: the test writes its validations."""

    def __init__(self, made: Any, slug: str, why: str = "first", replicate: int = 1) -> None:
        self.run = f"{slug}-live"
        self.rundir = RunDir(made.place.path / f"{slug}-live")
        self.rundir.path.mkdir()
        index = made.indexes[slug]
        told = {"index": index, "run": self.run, "run_dir": str(self.rundir.path), "replicate": replicate, "why": why}
        made.tell("prepared", **told)
        made.tell("started", run=self.run)
        row = LedgerRow(index=index, run_id=self.run, run_dir=str(self.rundir.path), replicate=replicate)
        self.spec = made.run_spec(row, slug, str(self.rundir.path / "metrics.jsonl"))
        recorded_run.write(self.rundir, replace(self.spec, why=why), {})
        self.rundir.log.write_text("")

    def writes(self, step: int, value: float) -> None:
        """A line of its metrics file."""
        with (self.rundir.path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"step": step, "data": {METRIC: value}}) + "\n")

    def reports(self) -> None:
        """What the Runner tells of the line on the console."""
        events.append(self.rundir.events, "validation", s=1.0)

    def validates(self, step: int, value: float) -> None:
        self.writes(step, value)
        self.reports()

    @property
    def asked(self) -> dict[str, Any] | None:
        return read_json(self.rundir.stop)


@pytest.fixture
def past(campaign: Callable[..., Any]) -> Any:
    """Three runs of the baseline that end at 0.5 and an idea that ended at 0.6, validated at 0, 10 ... 40."""
    made = campaign(prune="median", warmup=5)
    made.idea("good")
    made.run("good", 0.6, "discard")
    made.idea("new")
    return made


def looked(made: Any, *living: Living, pruner: Pruner | None = None) -> list[str]:
    said: list[str] = []
    history = CampaignHistory(made.place)
    (pruner or Pruner(history.spec, said.append)).look(history, {one.run: one.rundir for one in living})
    return said


def test_a_run_that_is_behind_is_asked_to_stop_with_the_reason(past: Any) -> None:
    new = Living(past, "new")
    new.validates(10, 0.05)
    said = looked(past, new)
    reason = "pruned: 0.05 at step 10, behind 0.2025 of 4 other runs"
    assert new.asked and (new.asked["cause"], new.asked["how"], new.asked["reason"]) == ("pruned", "now", reason)
    assert said == [f"new-live: {reason}"]
    assert events.read(new.rundir.events)[0][-1].event == "stop_requested"


def test_each_validation_is_judged_as_it_stood_also_when_several_came_at_once(past: Any) -> None:
    new = Living(past, "new")
    new.validates(10, 0.0)
    new.validates(40, 0.9)
    looked(past, new)
    assert new.asked


@pytest.mark.parametrize(
    ("slug", "why", "replicate", "ends"),
    [
        ("new", "first", 1, True),
        ("new", "retry", 1, True),  # the first one was lost
        ("baseline", "baseline", 4, False),
        ("baseline", "confirm", 5, False),
        ("new", "retest", 2, False),
        ("new", "retry", 2, False),  # of a re-test
        ("new", "confirm", 3, False),
        ("plumbing", "first", 1, False),
    ],
)
def test_what_is_never_ended(past: Any, slug: str, why: str, replicate: int, ends: bool) -> None:
    past.idea("plumbing", smoke=True)
    one = Living(past, slug, why, replicate)
    one.validates(10, 0.0)
    looked(past, one)
    assert bool(one.asked) is ends


def test_a_file_that_is_written_after_the_line_is_waited_for(past: Any) -> None:
    new = Living(past, "new")
    history = CampaignHistory(past.place)
    pruner = Pruner(history.spec, lambda _: None)
    new.reports()
    pruner.look(history, {new.run: new.rundir})
    assert new.asked is None
    new.writes(10, 0.0)
    pruner.look(history, {new.run: new.rundir})
    assert new.asked


def test_it_asks_once_also_after_a_restart(past: Any) -> None:
    new = Living(past, "new")
    new.validates(10, 0.0)
    looked(past, new)
    first = new.asked
    new.validates(20, 0.0)
    assert looked(past, new) == [] and new.asked == first


def test_re_tests_crashes_and_smoke_runs_are_no_measure(campaign: Callable[..., Any]) -> None:
    made = campaign(prune="median", warmup=5)
    made.idea("good")
    for _ in range(4):  # the first one counts, its re-tests do not
        made.run("good", 9.0, "discard")
    made.idea("broken")
    made.run("broken", 9.0, "crash")
    made.idea("new")
    new = Living(made, "new")
    new.validates(10, 0.21)
    looked(made, new)
    assert new.asked is None, "the median of the baseline's three and one other is 0.2025"


def test_another_run_that_lives_is_compared_with(campaign: Callable[..., Any]) -> None:
    made = campaign(prune="median", warmup=5)
    for slug in ("peer", "new"):
        made.idea(slug)
    peer, new = Living(made, "peer"), Living(made, "new")
    history = CampaignHistory(made.place)
    pruner = Pruner(history.spec, lambda _: None)
    new.validates(10, 0.0)
    pruner.look(history, {new.run: new.rundir})
    assert new.asked is None, "three others are too few"
    peer.validates(20, 0.4)
    new.validates(20, 0.0)
    pruner.look(history, {peer.run: peer.rundir, new.run: new.rundir})
    assert new.asked and peer.asked is None


def end(made: Any, living: Living, cause: str) -> ExitRecord:
    return ExitRecord(living.run, Ending.STOPPED, "pruned: 0.05 at step 10, behind 0.2", cause=cause)


def test_it_is_judged_discard_and_that_is_final(past: Any) -> None:
    past.spec = replace(past.spec, min_steps=1000)  # it would be a smoke run: it was cut because it was judged
    new = Living(past, "new")
    verdict = past.judged(new.spec, end(past, new, "pruned"), 0.99, 10)
    assert (verdict.verdict, verdict.judged, verdict.reason) == (Verdict.DISCARD, True, end(past, new, "pruned").reason)
    stopped = past.judged(new.spec, end(past, new, "stop_request"), 0.99, 10)
    assert not stopped.judged, "what somebody stopped says nothing of the idea"
    past.tell("withdrawn", run=new.run)
    past.run("new", 0.99, "discard", ending="stopped", failure="pruned")
    state = past.state()
    idea = state.by_slug("new")
    assert idea.pruned and idea.attempted and pending(state, idea) is None
    assert (idea.value, idea.attempt().status, idea.attempt().settled) == (None, "pruned", True)
