"""What a campaign will cost in runs: the plan's numbers against simulated campaigns, and their bounds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from autoresearch.core.campaign.decision import RunEvidence, decide
from autoresearch.core.campaign.judgement import rule_for
from autoresearch.core.campaign.spec import MOST_REPEATS, MOST_ROUNDS, CampaignSpec, Rules
from autoresearch.core.controller import cost
from autoresearch.core.controller.rules import eta, seconds_a_run
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.confirmation import design, p_value
from autoresearch.core.statistics.noise import noise_of
from tests.bench.simulated import Simulation, World
from tests.core.conftest import SPEC

UP = Objective("metric")
FRESH = sum(2 * design(number, 1, 16).sizes[-1] for number in range(1, MOST_ROUNDS + 1))


def planned(**changes: Any) -> CampaignSpec:
    rules = Rules(count=24, confirm_runs=changes.pop("confirm_runs", 16))
    return replace(SPEC, rules=rules, **{"replicates": 5, **changes})


def retests_of(number: int, ideas: int, baseline: int, retests: int) -> int:
    """The re-tests of one campaign in which one idea in ten is better by two sd."""
    rng, level, spent = random.Random(f"cost {number}"), 0.0, 0
    incumbent = [rng.gauss(0, 1) for _ in range(baseline)]
    noise = noise_of([incumbent])
    for _ in range(ideas - 1):
        own, values = level + (2.0 if rng.random() < 0.1 else 0.0), []
        while True:
            values.append(rng.gauss(own, 1))
            decision = decide(UP, RunEvidence(values, incumbent, noise), rule_for(retests))
            if not decision.retest:
                break
        spent += len(values) - 1
        noise = noise.plus(values)
        if decision.status is Verdict.KEEP:
            incumbent, level = values, own
    return spent


@pytest.mark.parametrize(("ideas", "baseline", "retests"), [(24, 5, 6), (12, 3, 6), (24, 5, 2)])
def test_the_expected_re_tests_are_those_of_simulated_campaigns(ideas: int, baseline: int, retests: int) -> None:
    """Of 60 campaigns each: the standard error is a tenth."""
    simulated = fmean(retests_of(number, ideas, baseline, retests) for number in range(60))
    found = cost.run_count(planned(replicates=baseline, retests=retests), ideas).retests
    assert found == pytest.approx(simulated, rel=0.3)


def test_every_part_of_the_number() -> None:
    count = cost.run_count(planned(), 24)
    assert (count.baseline, count.first) == (5 + 1, 23)  # it runs once more after the first 12 ideas
    assert cost.run_count(planned(), 13).baseline == 5  # not after the last one
    assert count.most == 6 + 23 * 7 + MOST_REPEATS + FRESH
    assert 0 < count.confirming <= 16 and count.expected == 29 + count.retests + count.confirming < count.most
    assert cost.run_count(planned(), 24) == count
    none = cost.run_count(planned(confirm=False, retests=0), 24)
    assert (none.expected, none.most) == (29, 29)
    alone = cost.run_count(planned(), 1)
    assert (alone.expected, alone.most) == (5, 5)  # there is nothing to confirm
    two = cost.run_count(planned(replicates=2), 24)
    assert two.most == 2 + 23 * 7 + MOST_REPEATS + FRESH + 1  # the third run shows whether seeds do anything
    more = [cost.run_count(planned(), ideas).expected for ideas in range(1, 80)]
    assert more == sorted(more)


def test_a_campaign_that_goes_on_costs_what_is_left() -> None:
    whole, rest = cost.run_count(planned(), 24), cost.run_count(planned(), 24, attempted=10)
    assert (rest.baseline, rest.first, rest.most) == (1, 14, 1 + 14 * 7 + MOST_REPEATS + FRESH)
    assert rest.retests == pytest.approx(whole.retests - cost.run_count(planned(), 10).retests)


def test_as_many_ideas_as_fit() -> None:
    spec = planned()
    for runs in (5, 20, 44, 130):
        ideas = cost.ideas_within(spec, runs)
        assert cost.run_count(spec, ideas).expected <= runs < cost.run_count(spec, ideas + 1).expected
    assert cost.ideas_within(spec, 4) == 0  # not even the baseline
    assert cost.ideas_within(spec, 1000, most=24) == 24
    assert cost.ideas_within(spec, 0, most=24, attempted=10) == 10


@pytest.mark.parametrize(("runs", "baseline"), [(0, 4), (14, 4), (20, 4), (24.9, 4), (25, 5), (400, 5)])
def test_the_baseline_is_a_fifth_at_most_but_four(runs: float, baseline: int) -> None:
    assert cost.baseline_runs(runs) == baseline


@pytest.mark.parametrize("effect", [0.0, 1.0, 2.0])
def test_the_expected_fresh_runs_are_those_of_the_test_itself(effect: float) -> None:
    """Within two runs, of eight to sixteen: it takes the normal distribution for Student's t, which needs more runs."""
    looks, rng = design(1, 1, 16), random.Random(f"fresh {effect}")
    assert looks is not None
    ours = []
    for _ in range(200):
        sides = [[rng.gauss(level, 1) for _ in range(looks.sizes[-1])] for level in (effect, 0.0)]
        for size, alpha, futile in zip(looks.sizes, looks.levels, (*looks.futile, 0.0), strict=True):
            if not alpha < p_value(UP, sides[0][:size], sides[1][:size]) <= futile:
                ours.append(2 * size)
                break
    assert abs(cost.fresh_runs(effect, 16) - fmean(ours)) < 2
    assert cost.fresh_runs(effect, 8) == 8 and cost.fresh_runs(effect, 7) == 0


def test_what_the_confirmation_will_take(records: Callable[..., Any]) -> None:
    made = records()
    assert cost.confirmation_to_come(made.state()) == 0  # nothing is kept
    made.idea("good")
    for value in (0.9, 0.91, 0.92, 0.9):
        made.run("good", value)
    state = made.state()
    assert cost.confirmation_to_come(state) == 8  # an effect of many sd: the first look is enough
    for changed in (replace(state.spec, confirm=False), state.spec.with_rules({"confirm_runs": 4})):
        assert cost.confirmation_to_come(replace(state, spec=changed)) == 0
    made.checked(seen=False)
    assert cost.confirmation_to_come(made.state()) == 0  # no claim is made of copies


class _Foreseen(Simulation):
    """After each row, the runs that are expected to come, and what is said of the time."""

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.to_come: list[float] = []
        self.times: list[str] = []

    def row(self, *args: Any, **more: Any) -> None:
        super().row(*args, **more)
        self.to_come.append(cost.runs_to_come(self.state))
        self.times.append(eta(self.state))


@pytest.mark.parametrize(("ideas", "baseline"), [(4, 3), (7, 4), (23, 5)])
def test_at_half_time_what_is_to_come_is_within_a_factor_of_two(ideas: int, baseline: int) -> None:
    """Of campaigns that find something, as the demo does."""
    for seed in range(6):
        played = _Foreseen(World(ideas=ideas, share=0.8, effect=4.0, baseline=baseline), seed)
        outcome = played.run()
        made = outcome.runs + outcome.fresh
        half = made // 2
        assert 0.5 < played.to_come[half - 1] / (made - half) < 2, (seed, half, made)
        assert played.to_come[-1] == 0 and played.times[-1] == ""
        assert "to go, a proof included" in played.times[half // 2]


@pytest.mark.parametrize(("ideas", "baseline"), [(3, 3), (7, 4), (23, 5)])
def test_the_usual_number_of_runs_is_seldom_exceeded(ideas: int, baseline: int) -> None:
    """One idea in ten is better, or every second one."""
    over = 0
    for share, effect, seed in ((*world, seed) for world in ((0.1, 2.0), (0.5, 4.0)) for seed in range(5)):
        played = Simulation(World(ideas=ideas, share=share, effect=effect, baseline=baseline), seed)
        outcome, count = played.run(), cost.run_count(played.state.spec, ideas + 1)
        assert count.least <= outcome.runs + outcome.fresh <= count.most
        over += outcome.runs + outcome.fresh > count.usual
    assert over <= 1


def test_the_time_to_go_is_the_campaigns_own(records: Callable[..., Any]) -> None:
    """By when runs ended: what lies between them counts, unless the campaign stood still."""
    made = records(rules=Rules(count=2), confirm=False, retests=0)
    made.clock += 60  # between two runs
    made.run("baseline", 0.5)
    assert seconds_a_run(made.state()) == pytest.approx((3 * 300 + 360) / 4, abs=2)
    made.clock += 9e5  # a pause
    made.run("baseline", 0.5)
    assert seconds_a_run(made.state()) == pytest.approx((3 * 300 + 2 * 360) / 5, abs=2)
    assert eta(made.state()) == "; about 5m24s to go"


@pytest.mark.parametrize(
    ("slots", "waves", "sizes"),
    [
        (1, 16, (4, 6, 8)),
        (1, 15, (4, 6)),
        (1, 11, (4,)),
        (1, 7, None),
        (2, 8, (4, 6, 8)),
        (2, 7, (4, 6)),
        (3, 7, (4, 6, 8)),  # 3 waves to the first look, 2 to each other one: a look is made when all its runs are over
        (3, 6, (4, 6)),
        (8, 3, (4, 6, 8)),
        (8, 2, (4, 6)),
        (8, 0, None),
        (1, math.inf, (4, 6, 8)),
    ],
)
def test_a_round_is_planned_to_end_in_time(
    slots: int, waves: float, sizes: tuple[int, ...] | None, records: Callable[..., Any]
) -> None:
    made = records(parallel=slots)
    made.idea("good")
    for value in (0.9, 0.91, 0.92, 0.9):
        made.run("good", value)
    planned, _ = cost.plan_in_time(made.state(), waves)
    assert (planned and planned.sizes) == sizes
