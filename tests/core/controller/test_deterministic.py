"""Where the seed does nothing: one run of each idea, against a resolution, and a verdict that is no claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.campaign.claim import CLAIMS
from autoresearch.core.campaign.decision import Resolution, RunEvidence, decide_once
from autoresearch.core.campaign.judgement import JITTERED, resolution_of
from autoresearch.core.campaign.spec import Rules
from autoresearch.core.controller import confirmation_rounds
from autoresearch.core.controller.actions import Finish, Note
from autoresearch.core.controller.confirmation_rounds import check_seeds, plan_round
from autoresearch.core.controller.next_actions import Machine, next_actions
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.seeding import SeededRun
from autoresearch.core.statistics.student_t import t_quantile

KEEP, DISCARD, CRASH = Verdict.KEEP, Verdict.DISCARD, Verdict.CRASH
UP, DOWN = Objective("pass@1"), Objective("pass@1", Direction.MINIMIZE)
ONE_SEED = "differs for this seed"
UNIT = Resolution(0.001, "one unit of the last digit")


@pytest.mark.parametrize(
    ("value", "status", "says"),
    [
        (0.523, KEEP, "better by 0.012, resolution 0.001; another run would be a copy"),
        (0.513, KEEP, "better by 0.002"),
        # 0.512 - 0.511 is a little more than 0.001 in binary
        (0.512, DISCARD, "better by 0.001, within the resolution of 0.001"),
        (0.511, DISCARD, "no difference"),
        (0.510, DISCARD, "worse by 0.001"),
        (0.509, DISCARD, "worse by 0.002"),
        (None, CRASH, "no valid metric"),
        (math.nan, CRASH, "no valid metric"),
    ],
)
def test_one_run_against_the_resolution(value: float | None, status: Verdict, says: str) -> None:
    found = decide_once(UP, RunEvidence([value], [0.511]), UNIT)
    assert (found.status, found.retest) == (status, False)
    assert says in found.reason
    assert found.reason.endswith("; another run would be a copy") or status is CRASH
    mirrored = RunEvidence([None if value is None else -value], [-0.511])
    down = decide_once(DOWN, mirrored, UNIT)
    assert (down.status, down.reason) == (found.status, found.reason)
    assert down.delta == found.delta or math.isclose(down.delta or 0.0, found.delta or 0.0, rel_tol=1e-9)


# -- the resolution --------------------------------------------------------------------------------------------------


def exact(records: Callable[..., Any], *values: float, **changes: Any) -> Any:
    """A campaign whose baseline gave these values, and whose seed does nothing."""
    made = records(empty=True, **changes)
    made.idea("baseline")
    for value in values:
        made.run("baseline", value)
    made.checked(seen=False)
    return made


def test_the_last_digit_that_is_written(records: Callable[..., Any]) -> None:
    made = exact(records, 0.51, 0.51, 0.51)
    assert resolution_of(made.state()).size == pytest.approx(0.01)  # of an older journal, which has no step
    assert resolution_of(made.state(), [0.512]).size == pytest.approx(0.001)
    made.idea("a")
    made.run("a", 0.4321, "discard")
    assert resolution_of(made.state()).size == pytest.approx(0.0001)
    full = exact(records, *[0.1234567890123456] * 3)
    assert resolution_of(full.state()) == Resolution(pytest.approx(1.2345e-10, rel=1e-3), "a rounding error")
    stated = exact(records, 0.51, 0.51, 0.51, resolution=0.05)
    assert resolution_of(stated.state(), [0.512]) == Resolution(0.05, "as set")


def test_the_check_notes_the_digits_of_the_whole_series(records: Callable[..., Any]) -> None:
    made = records(empty=True)
    made.idea("baseline")
    for _ in range(3):
        made.run("baseline", 0.5)
    seeds = zip(made.curves(), (41, 41, 42), strict=True)
    curves = {run: SeededRun(seed, ((0, 0.1234), (1, 0.5))) for run, seed in seeds}
    said = made.apply(check_seeds(made.state(), curves))
    state = made.state()
    assert state.unseeded and state.seed_check.step == pytest.approx(1e-4)
    assert resolution_of(state).size == pytest.approx(1e-4)
    assert said[0].startswith("Runs are equal, whatever their seed: one run judges an idea, to within 0.0001, and noth")
    assert len(said[0].split()) < 60 and "`- seed: random`" in said[0] and "`- seed: KEY` takes it" in said[0]


@pytest.mark.parametrize("seeding", ["random", "fixed", ""])
def test_one_value_of_each_run_says_what_its_source_says(records: Callable[..., Any], seeding: str) -> None:
    """`np.random.default_rng()`, val_bpb: the same numbers would come of copies with jitter."""
    made = records(empty=True, seeding=seeding, seeding_why="train.py:3 draws anew" if seeding == "random" else "")
    made.idea("baseline")
    for value in (0.9399, 0.9402, 0.9395):
        made.run("baseline", value)
    seeds = zip(made.curves().items(), (41, 41, 42), strict=True)
    curves = {run: SeededRun(seed, one.series) for (run, one), seed in seeds}
    said, state = made.apply(check_seeds(made.state(), curves)), made.state()
    assert (state.replicated, state.unseeded) == (seeding == "random", seeding != "random")
    first = {
        "random": "Every run is a replicate, whatever its seed: train.py:3 draws anew.",
        "fixed": "Runs are copies, whatever their seed: one run judges",
        "": "Runs with the same seed differ in pass@1 about as much as runs with another (another seed changes",
    }
    assert len(said) == 1 and said[0].startswith(first[seeding])
    assert ("`- seed: random`" in said[0]) is (seeding != "random")
    made.idea("better")
    for value in (0.95, 0.9503, 0.9498, 0.9501):
        made.run("better", value)
    assert (plan_round(made.state())[0] is not None) is (seeding == "random")
    assert len(made.state().baseline.values) == 3


def test_jitter_alone_is_rarely_better_than_the_resolution(records: Callable[..., Any]) -> None:
    """Three copies: the level is that of Student's t, for one run against another."""
    times = t_quantile(1 - JITTERED, 2) * math.sqrt(2)
    assert times == pytest.approx(9.85, abs=0.01)
    made = exact(records, 0.500, 0.501, 0.502)
    found = resolution_of(made.state())
    assert found.size == pytest.approx(times * 0.001)
    assert "9.85 times the jitter, sd 0.001 of 3 runs of the baseline" in found.source


# -- the campaign ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", list(Direction))
def test_the_verdict_at_the_end(records: Callable[..., Any], direction: Direction) -> None:
    sign = 1 if direction is Direction.MAXIMIZE else -1
    made = exact(records, 0.5, 0.5, 0.5, objective=Objective("pass@1", direction), rules=Rules(count=4))
    for slug, value in (("a", 0.5 + 0.2 * sign), ("b", 0.5 + 0.3 * sign)):
        made.idea(slug)
        made.run(slug, value)
    made.idea("c")
    made.run("c", 0.5 - 0.2 * sign, "discard")
    due = next_actions(made.state(), Machine(now=made.clock, tried=frozenset()))
    verdicts = [one for one in due if isinstance(one, Note) and one.do in CLAIMS]
    assert [(one.do, one.fields["slug"]) for one in verdicts] == [(ONE_SEED, "a"), (ONE_SEED, "b")]
    assert verdicts[1].fields.keys() == {"index", "slug", "reason"}
    assert "better than the baseline by 0.3, resolution 0.1" in verdicts[1].fields["reason"]
    assert isinstance(due[-1], Finish) and not [one for one in due if getattr(one, "do", "") == "confirming"]
    said = made.apply(due)
    assert said[0].startswith("#2 Try a: differs for this seed: better than the baseline by 0.2")
    state = made.state()
    assert [idea.confirmed for idea in state.ideas] == ["", ONE_SEED, ONE_SEED, ""]
    assert state.by_slug("b").kept and state.best.slug == "b" and not state.by_slug("b").marked
    again = next_actions(state, Machine(now=made.clock, tried=frozenset()))
    assert not [one for one in again if isinstance(one, Note) and one.do in CLAIMS]


def test_a_round_that_finds_the_seed_idle_ends_without_runs(records: Callable[..., Any]) -> None:
    """Begun before anything was known of the seed, as with two runs of the baseline."""
    made = records()
    made.idea("a")
    made.run("a", 0.7)
    made.note("confirming", round=1, candidates=[2], each=4, baseline=4)
    made.checked(seen=False)
    state = made.state()
    assert confirmation_rounds.owed_to_round(state) is None and confirmation_rounds.round_is_over(state)
    made.apply(confirmation_rounds.judge_round(state, made.curves()))
    after = made.state()
    assert after.by_slug("a").confirmed == ONE_SEED and after.open_round is None
