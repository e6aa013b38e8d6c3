"""Screening: which living runs are asked to end, when, and what is never ended. Files made by hand."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.campaign.judgement import pending
from autoresearch.core.controller.confirmation_rounds import plan_round
from autoresearch.core.controller.standing import GIVEN_UP, Word, standing
from autoresearch.core.run.ending import Ending, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.lab.campaign_report.summary import idea_lines
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.screening import Screen
from autoresearch.lab.ideas.tried_before import given_up
from autoresearch.records import events, recorded_run
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.files import read_json
from autoresearch.records.rundir import RunDir

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

    def reports(self, after_s: float) -> None:
        """What the Runner tells of the line on the console."""
        events.append(self.rundir.events, "validation", s=after_s)

    def validates(self, step: int, value: float, after_s: float = 300.0) -> None:
        self.writes(step, value)
        self.reports(after_s)

    @property
    def asked(self) -> dict[str, Any] | None:
        return read_json(self.rundir.stop)


@pytest.fixture
def past(campaign: Callable[..., Any]) -> Any:
    """Three runs of the baseline that end near 0.5, validated at 0, 10 ... 40; screened after 5 minutes."""
    made = campaign(screen_s=300.0)
    made.idea("new")
    return made


def looked(made: Any, *living: Living, screen: Screen | None = None) -> list[str]:
    said: list[str] = []
    history = CampaignHistory(made.place)
    (screen or Screen(history.spec, said.append)).look(history, {one.run: one.rundir for one in living})
    return said


def test_a_run_that_is_behind_is_asked_to_stop_with_the_reason(past: Any) -> None:
    new = Living(past, "new")
    new.validates(10, 0.05)
    said = looked(past, new)
    reason = r"screened: 0.05 at step 10, clearly behind 0\.\d+ of the baseline's 3 runs"
    assert new.asked and new.asked["cause"] == "screened" and re.fullmatch(reason, new.asked["reason"])
    assert said == [f"new-live: {new.asked['reason']}"]
    assert events.read(new.rundir.events)[0][-1].event == "stop_requested"


def test_it_is_looked_at_once_and_not_before_the_time(past: Any) -> None:
    new, screen = Living(past, "new"), Screen(CampaignHistory(past.place).spec, lambda _: None)
    new.validates(10, 0.0, after_s=299.0)
    looked(past, new, screen=screen)
    assert not new.asked
    new.validates(20, 0.9)
    looked(past, new, screen=screen)
    new.validates(30, 0.0)
    looked(past, new)  # of a controller after it
    assert not new.asked, "at its look it was not behind"


def test_nothing_is_ended_without_the_key(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("new")
    new = Living(made, "new")
    new.validates(10, 0.0)
    assert looked(made, new) == [] and not new.asked


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
    ],
)
def test_what_is_never_ended(past: Any, slug: str, why: str, replicate: int, ends: bool) -> None:
    one = Living(past, slug, why, replicate)
    one.validates(10, 0.0)
    looked(past, one)
    assert bool(one.asked) is ends


@pytest.mark.parametrize(("age_s", "ends"), [(200, False), (400, True)])
def test_a_trainer_that_prints_no_validation_is_looked_at_by_its_steps(past: Any, age_s: float, ends: bool) -> None:
    new = Living(past, "new")
    events.append(new.rundir.events, "started", s=0.0, t=time.time() - age_s)
    new.writes(10, 0.0)
    looked(past, new)
    assert bool(new.asked) is ends


def test_what_was_measured_before_any_training_is_no_look(past: Any) -> None:
    new = Living(past, "new")
    new.validates(0, 0.0)
    looked(past, new)
    assert not new.asked
    new.validates(10, 0.0)
    looked(past, new)
    assert new.asked


def test_a_run_of_the_baseline_that_repeats_a_seed_tells_nothing(past: Any) -> None:
    check = {"seen": True, "reason": "", "by": "", "runs": 3, "values": 9, "exact": True}
    past.tell("seed_check", **check, copies=[past.state().baseline.rows[1].run_id])
    new = Living(past, "new")
    new.validates(10, 0.0)
    assert looked(past, new) == [] and not new.asked, "two are too few"


def test_a_file_that_is_written_after_the_line_is_waited_for(past: Any) -> None:
    new, screen = Living(past, "new"), Screen(CampaignHistory(past.place).spec, lambda _: None)
    new.reports(300.0)
    looked(past, new, screen=screen)
    assert new.asked is None
    new.writes(10, 0.0)
    looked(past, new, screen=screen)
    assert new.asked


def test_it_is_no_verdict_and_a_proof_may_run_it_whole(past: Any) -> None:
    new, reason = Living(past, "new"), "screened: 0.05 at step 10, clearly behind 0.2 of the baseline's 3 runs"
    ended = ExitRecord(new.run, Ending.STOPPED, reason, cause="screened")
    verdict = past.judged(new.spec, ended, 0.99, 10)
    assert (verdict.verdict, verdict.judged, verdict.reason) == (Verdict.SCREENED, True, reason)
    stopped = past.judged(new.spec, replace(ended, cause="stop_request"), 0.99, 10)
    assert stopped.verdict is Verdict.DISCARD and stopped.reason.startswith("stopped: ")
    past.tell("withdrawn", run=new.run)
    past.run("new", 0.99, "screened", ending="stopped")
    state = past.state()
    idea = state.by_slug("new")
    assert idea.screened and idea.attempted and pending(state, idea) is None
    assert (idea.value, idea.attempt().status, idea.attempt().settled) == (None, "screened", True)
    found = standing(state, idea)
    assert found.word is Word.SCREENED and found.word not in GIVEN_UP and given_up(state, idea) is None
    round_, why = plan_round(state, [idea])
    assert round_ is not None and round_.candidates == (idea.index,), why


def test_what_a_constraint_limits_is_shown_of_whole_runs(campaign: Callable[..., Any]) -> None:
    made = campaign(constraints=("seconds < 9",))
    made.idea("new")
    made.run("new", 0.3, "screened", why="screen", constraints="seconds=1")
    made.run("new", 0.7, constraints="seconds=5")
    assert [line.limited for line in idea_lines(made.state())] == [{}, {"seconds": 5.0}]
