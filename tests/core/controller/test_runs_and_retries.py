"""Which run comes next, from the records alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.campaign.fold import fold
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller import runs_and_retries
from autoresearch.core.controller.next_actions import next_request
from autoresearch.core.controller.standing import runs_of
from tests.specs import events


def wanted(found: Any) -> tuple[str, int, str] | None:
    return (found.idea.slug, found.replicate, found.why) if found else None


def test_retests_are_owed_while_an_idea_looks_better(records: Callable[..., Any]) -> None:
    made = records()
    made.idea("good")
    made.run("good", 0.60, "discard")
    state = made.state()
    assert wanted(runs_and_retries.owed(state)) == ("good", 2, "retest")
    assert not runs_and_retries.decided(state, state.by_slug("good"))
    assert runs_and_retries.attempts(state)[1].status == ""  # its proposer is not told yet
    assert runs_and_retries.retest_owed(state, state.by_slug("good"))
    for value in (0.61, 0.62, 0.60):
        made.run("good", value, "keep")
    state = made.state()
    assert runs_and_retries.owed(state) is None and runs_and_retries.decided(state, state.by_slug("good"))
    made.idea("bad")
    made.run("bad", 0.3, "discard")
    assert runs_and_retries.owed(made.state()) is None


def test_what_ended_with_its_campaign_is_tried_again_as_often_as_that_happens(records: Callable[..., Any]) -> None:
    made = records(max_machine_retries=0)
    made.idea("a")
    for number in range(3):
        why = "retry" if number else ""
        made.run("a", 0.9, "discard", failure="campaign_stopped", ending="stopped", replicate=1, why=why)
        state = made.state()
        assert wanted(runs_and_retries.owed(state)) == ("a", 1, "retry")
        assert not runs_and_retries.decided(state, state.by_slug("a")) and state.by_slug("a").value is None
        assert [a.status for a in runs_and_retries.attempts(state)][-1] == "", "no proposer takes it for a result"
    made.note("unwanted", slug="a")
    assert runs_and_retries.owed(made.state()) is None


@pytest.mark.parametrize("most", [0, 1])
def test_what_the_machine_did_is_tried_again_so_often(records: Callable[..., Any], most: int) -> None:
    made = records(max_machine_retries=most)
    made.idea("a")
    for number in range(most + 1):
        made.run("a", None, "crash", failure="preempted", ending="lost", replicate=1, why="retry" if number else "")
        owed = runs_and_retries.owed(made.state())
        assert (wanted(owed) == ("a", 1, "retry")) is (number < most), number
        row = made.state().by_slug("a").rows[-1]
        assert runs_and_retries.tried_again(made.state(), made.state().by_slug("a"), row) is (number < most), number
    idea = made.state().by_slug("a")
    assert runs_and_retries.RunRequest(idea, idea.runs[-1].replicate, "retry").interrupted == idea.runs[-1]
    assert runs_and_retries.RunRequest(idea, idea.runs[-1].replicate, "retest").interrupted is None


def test_a_machine_that_ends_every_run_of_the_baseline_ends_the_baseline(records: Callable[..., Any]) -> None:
    made = records(empty=True, replicates=2, max_machine_retries=1)
    made.idea("baseline")
    tries = 0
    while (owed := runs_and_retries.owed(made.state())) is not None:
        made.run("baseline", None, "crash", failure="preempted", ending="lost", replicate=owed.replicate, why=owed.why)
        tries += 1
        assert tries < 20 and runs_and_retries.baseline_done(made.state()) is (tries == 4)
    assert tries == 4
    assert runs_and_retries.baseline_done(made.state()) and runs_and_retries.baseline_failed(made.state())


@pytest.mark.parametrize(
    ("failure", "ending", "sandbox", "own", "edited"),  # whether it is excused in our code, and in an agent's
    [
        ("preempted", "lost", "", True, True),  # the scheduler says so
        ("preempted", "crashed", "bwrap", True, False),  # a line in its output, which an agent's code may print
        ("disk", "crashed", "bwrap", True, False),
        ("machine", "crashed", "", True, False),
        ("gpu_fault", "crashed", "", True, False),  # of an older record
        ("runner_died", "lost", "bwrap", True, True),
        ("runner_died", "lost", "", True, False),
        ("gpu_memory", "crashed", "", False, False),
        ("communication", "crashed", "", False, False),
    ],
)
def test_what_the_machine_did_and_what_the_idea_did(
    records: Callable[..., Any], failure: str, ending: str, sandbox: str, own: bool, edited: bool
) -> None:
    made = records()
    made.idea("a")
    row = made.end(made.start("a"), None, "crash", failure=failure, ending=ending, sandbox=sandbox)
    idea = made.state().by_slug("a")
    for by_agent, excused in ((False, own), (True, edited)):
        assert replace(idea, edited=by_agent).excused(row) is excused, by_agent


def measured(records: Callable[..., Any], *values: float) -> Any:
    """A campaign whose baseline gave these values."""
    made = records(empty=True, replicates=len(values))
    made.idea("baseline")
    for value in values:
        made.run("baseline", value)
    made.checked()
    return made


def lived(records: Callable[..., Any]) -> Any:
    """A baseline of four runs, an idea that leads, and one that was discarded against it."""
    made = measured(records, 0.49, 0.5, 0.51, 0.5)
    made.idea("leader")
    for value, standing in ((0.9, "pending"), (0.91, "pending"), (0.89, "pending"), (0.9, "keep")):
        made.run("leader", value, "keep" if standing == "keep" else "discard", standing=standing)
    made.idea("second")
    for value in (0.7, 0.71, 0.69, 0.7):
        made.run("second", value, "discard", standing="discard")
    return made


def test_what_was_judged_against_a_demoted_idea_is_judged_again(records: Callable[..., Any]) -> None:
    made = lived(records)
    assert made.state().best.slug == "leader" and runs_and_retries.owed(made.state()) is None
    made.verdicts.append({"do": "demoted", "index": made.indexes["leader"]})
    found = runs_and_retries.owed(made.state())
    assert found is not None and (found.idea.slug, found.why) == ("second", "retest")
    made.run("second", 0.7, "keep", standing="keep")
    assert made.state().best.slug == "second" and runs_and_retries.owed(made.state()) is None


def test_a_discarded_idea_is_reopened_only_if_it_is_clearly_better_by_now(records: Callable[..., Any]) -> None:
    """Its run is ahead by 0.022; 0.9 standard errors are 0.0082 in the first case, and 0.0164 in the second."""
    for spread, reopened in ((0.01, True), (0.02, False)):
        made = measured(records, 0.5 - spread, 0.5, 0.5 + spread, 0.5)
        made.idea("once")
        made.run("once", 0.5 + 0.022, "discard", standing="discard")
        found = runs_and_retries.owed(made.state())
        assert (found is not None and found.idea.slug == "once") is reopened, spread
        made.rows[-1] = replace(made.rows[-1], standing="pending")
        assert runs_and_retries.owed(made.state()) is not None, "an idea that is pending needs less"


def test_a_re_test_that_a_row_promises_is_made_whatever_other_ideas_did_meanwhile(records: Callable[..., Any]) -> None:
    made = measured(records, 0.49, 0.5, 0.51, 0.5)
    made.idea("good")
    made.run("good", 0.52, "discard", standing="pending")
    made.idea("better")  # its runs were under way; it is kept, and by now it is the one to beat
    for value, standing in ((0.6, "pending"), (0.61, "pending"), (0.59, "pending"), (0.6, "keep")):
        made.run("better", value, "keep" if standing == "keep" else "discard", standing=standing)
    state = made.state()
    assert state.best.slug == "better" and wanted(runs_and_retries.owed(state)) == ("good", 2, "retest")
    assert not runs_and_retries.decided(state, state.by_slug("good"))
    made.run("good", 0.53, "discard", standing="discard")
    state = made.state()
    assert runs_and_retries.owed(state) is None and runs_and_retries.decided(state, state.by_slug("good"))
    made.rows[-1] = replace(made.rows[-1], standing="pending")
    state = replace(made.state(), unwanted={"good"})
    assert runs_and_retries.owed(state) is None, "somebody skipped it"


def test_the_baseline_runs_again_after_every_twelve_ideas(records: Callable[..., Any]) -> None:
    made = measured(records, 0.49, 0.5, 0.51, 0.5, 0.5)
    made.spec = replace(made.spec, rules=replace(made.spec.rules, count=40))
    for n in range(13):
        assert (runs_and_retries.owed(made.state()) is not None) is (n == 12), n
        made.idea(f"idea-{n}")
        made.run(f"idea-{n}", 0.4, "discard", standing="discard")
    found = runs_and_retries.owed(made.state())
    assert found is not None and (found.idea.slug, found.why) == ("baseline", "baseline")
    assert runs_and_retries.baseline_done(made.state()), "the search goes on meanwhile"
    made.run("baseline", 0.5)
    assert runs_and_retries.owed(made.state()) is None
    made.checked(seen=False)
    assert runs_and_retries.refreshes(made.state()) == 0, "a copy tells nothing"


def test_a_cheap_run_screens_an_idea_with_the_seed_of_its_first_one(records: Callable[..., Any]) -> None:
    made = records(screen_overrides={"steps": 20})

    def due() -> tuple[tuple[str, int, str] | None, int | None]:
        found = next_request(made.state())
        return wanted(found), runs_and_retries.seed_of(found, 0) if found else None

    made.idea("a")
    for n in range(3):
        assert due() == (("baseline", 4 + n, "screen"), n)
        made.run("baseline", 0.1 + n / 100, "screened", why="screen", seed=n)
    assert made.state().baseline.past_values == records().state().baseline.past_values
    assert due() == (("a", 1, "screen"), 0)
    made.run("a", None, "crash", failure="preempted", ending="lost", standing="pending", why="screen", seed=0)
    assert due() == (("a", 1, "screen"), 0)  # its machine was lost
    made.run("a", 0.1, "screened", standing="pending", why="screen", seed=0)  # numbered anew here
    assert made.state().by_slug("a").passed and not made.state().by_slug("a").values
    assert due() == (("a", 3, "first"), 0)
    made.run("a", 0.60, "discard", why="first", seed=0)
    assert due() == (("a", 4, "retest"), 1)
    made.note("unwanted", slug="a")
    made.idea("b")
    made.run("b", 0.01, "screened", why="screen", seed=0)
    assert made.state().by_slug("b").screened and due() == (None, None)
    assert runs_and_retries.decided(made.state(), made.state().by_slug("b"))


def test_where_the_cheap_runs_of_the_baseline_show_nothing_ideas_run_whole(records: Callable[..., Any]) -> None:
    made = records(screen_overrides={"steps": 20})
    made.idea("a")
    for _ in range(3):
        made.run("baseline", None, "crash", why="screen")
    assert wanted(next_request(made.state())) == ("a", 1, "first")


def test_runs_of_a_baseline_that_was_mended_since_say_nothing(records: Callable[..., Any]) -> None:
    made = records(empty=True, replicates=2)
    made.idea("baseline")
    for _ in range(2):
        made.run("baseline", None, "crash")
    assert runs_and_retries.baseline_failed(made.state())
    before, journal, rows = events(made.journal, made.rows), len(made.journal), len(made.rows)

    def state() -> CampaignState:
        return fold(made.spec, [*before, *events(made.journal[journal:], made.rows[rows:])])

    made.note("again", reason="asked for", after=2)
    assert runs_and_retries.baseline_over(state()) == 2 and not runs_and_retries.baseline_done(state())
    assert wanted(runs_and_retries.owed(state())) == ("baseline", 3, "baseline")
    for value in (0.5, 0.6):
        made.run("baseline", value)
    baseline = state().baseline
    assert runs_and_retries.baseline_done(state()) and baseline is not None and baseline.past_values == [0.5, 0.6]
    assert runs_of(state(), baseline, fresh=True) == "mean of 2"
