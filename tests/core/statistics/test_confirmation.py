"""A claim: fresh runs, corrected for how many claims there are."""

from __future__ import annotations

import math
import random

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.statistics.confirmation import MOST, Claim, confirm, level, plan
from autoresearch.core.statistics.noise import UNKNOWN, Noise

CONFIRMED, DEMOTED, UNDECIDED = Claim.CONFIRMED, Claim.DEMOTED, Claim.UNDECIDED
UP = Objective("reward")
DOWN = Objective("loss", Direction.MINIMIZE)
BASE = [9.0, 10.0, 11.0, 10.0]
SEVEN, EIGHT = 7, 8


def test_welch_by_hand() -> None:
    """Variances 2/3 and 8/3, four runs each: t = 3 / sqrt(10/12) = 3.286, df = (10/12)^2 / ((1/36 + 16/36) / 3)."""
    found = confirm(UP, BASE, {SEVEN: [11.0, 13.0, 15.0, 13.0]})[SEVEN]
    df = (10 / 12) ** 2 / ((1 / 36 + 16 / 36) / 3)
    assert df == pytest.approx(4.41, abs=0.01)
    assert (found.delta, found.n, found.n_baseline, found.alpha) == (3.0, 4, 4, pytest.approx(0.04))
    assert found.p == pytest.approx(1 / 70)  # Welch says 0.0131; no permutation of 4 against 4 runs is surer than 1/70
    assert found.claim is CONFIRMED
    nearer = confirm(UP, BASE, {SEVEN: [10.0, 12.0, 14.0, 12.0]})[SEVEN]  # t = 2.191: between p 0.05 and 0.025
    assert nearer.p is not None
    assert 0.04 < nearer.p < 0.05
    assert nearer.claim is DEMOTED


def test_minimise_is_the_mirror() -> None:
    up = confirm(UP, BASE, {SEVEN: [11.0, 13.0, 15.0, 13.0]})
    assert confirm(DOWN, [-v for v in BASE], {SEVEN: [-11.0, -13.0, -15.0, -13.0]}) == up
    assert confirm(DOWN, BASE, {SEVEN: [11.0, 13.0, 15.0, 13.0]})[SEVEN].claim is DEMOTED


def test_the_sentence_has_the_numbers() -> None:
    found = confirm(UP, BASE, {SEVEN: [11.0, 13.0, 15.0, 13.0]})[SEVEN]
    expected = "confirmed: +3 over the baseline in fresh runs (4 against 4), p = 0.014, 0.04 needed"
    assert found.reason == expected


@pytest.mark.parametrize(
    ("runs", "base", "claim"),
    [
        ([20.0, 20.0, 20.0], [10.0, 10.0, 10.0], UNDECIDED),  # 1 / C(6, 3) = 0.05
        ([20.0] * 4, [10.0] * 4, CONFIRMED),  # no noise at all
        ([10.0] * 4, [10.0] * 4, DEMOTED),
        ([9.0] * 4, [10.0] * 4, DEMOTED),
        ([20.0, None, math.nan, math.inf], BASE, UNDECIDED),
        ([20.0, 21.0, 22.0, None], BASE, CONFIRMED),  # 1 / C(7, 3) = 0.029
        ([20.0, 21.0, 22.0, 21.0], [10.0, None, None, None], UNDECIDED),
        ([], [], UNDECIDED),
        ([1.7e308, -1.7e308, 0.0, 1.0], [0.0, 1.0, 2.0, -1.7e308], DEMOTED),
    ],
)
def test_one_candidate(runs: list[float | None], base: list[float | None], claim: Claim) -> None:
    assert confirm(UP, base, {SEVEN: runs})[SEVEN].claim is claim


def test_who_has_too_few_runs_is_told_how_many() -> None:
    reason = confirm(UP, BASE, {SEVEN: [20.0, None]})[SEVEN].reason
    assert reason.startswith("1 of 2 fresh runs and 4 of 4 of the baseline have a valid metric: too few")


def test_holm() -> None:
    base = [0.0, 1.0, -1.0, 0.5, -0.5, 0.2]
    good, fair = [v + 3 for v in base], [v + 0.9 for v in base]
    alone = confirm(UP, base, {SEVEN: fair})[SEVEN]
    both = confirm(UP, base, {SEVEN: fair, EIGHT: good})
    assert list(both) == [SEVEN, EIGHT]
    assert both[EIGHT].alpha == pytest.approx(0.02)  # the surer one pays for both
    assert both[SEVEN].alpha == pytest.approx(0.04)
    assert (both[EIGHT].claim, both[SEVEN].claim) == (CONFIRMED, alone.claim)
    assert alone.p is not None
    assert 0.02 < alone.p < 0.04
    assert confirm(UP, base, {SEVEN: fair, EIGHT: [v - 3 for v in base]})[SEVEN].claim is DEMOTED  # 0.02 needed


def test_holm_stops_at_the_first_that_fails() -> None:
    base = [0.0, 1.0, -1.0, 0.5, -0.5, 0.2]
    fair = [v + 0.9 for v in base]
    claims = [found.claim for found in confirm(UP, base, dict.fromkeys((5, 6, 7), fair)).values()]
    assert claims == [DEMOTED] * 3  # each alone would be confirmed


def test_rounds_spend_what_is_left() -> None:
    assert [level(n) for n in (1, 2, 3)] == pytest.approx([0.04, 0.008, 0.0016])
    assert sum(level(n) for n in range(1, 60)) == pytest.approx(0.05)
    runs = {SEVEN: [11.0, 13.0, 15.0, 13.0, 13.0]}
    assert confirm(UP, [*BASE, 10.0], runs)[SEVEN].claim is CONFIRMED
    assert confirm(UP, [*BASE, 10.0], runs, round_number=3)[SEVEN].claim is UNDECIDED


def test_a_plan_is_large_enough_to_confirm() -> None:
    small, large = plan(3.0, Noise(1.0, 10)), plan(1.5, Noise(1.0, 10))
    assert (small.each, small.baseline, small.runs) == (4, 4, 8)
    assert small.power > 0.9
    assert small.each < large.each <= MOST
    assert "4 fresh runs of each of 1 and 4 of the baseline, power 9" in small.reason


def test_the_planned_power_is_the_simulated_one() -> None:
    found = plan(2.0, Noise(1.0, 10))
    rng = random.Random(6)
    hits = 0
    for _ in range(1000):
        base = [rng.gauss(0, 1) for _ in range(found.baseline)]
        runs = {SEVEN: [rng.gauss(2, 1) for _ in range(found.each)]}
        hits += confirm(UP, base, runs)[SEVEN].claim is CONFIRMED
    assert hits / 1000 == pytest.approx(found.power, abs=0.04)


def test_more_candidates_take_more_runs() -> None:
    one, four = plan(2.0, Noise(1.0, 10)), plan(2.0, Noise(1.0, 10), candidates=4)
    assert four.each >= one.each
    assert four.baseline == 2 * four.each
    assert plan(2.0, Noise(1.0, 10), round_number=3).each > one.each


@pytest.mark.parametrize(("budget", "each"), [(7, 0), (0, 0), (8, 4), (9, 4), (10, 5)])
def test_the_budget_bounds_it(budget: int, each: int) -> None:
    found = plan(0.5, Noise(1.0, 10), budget=budget)
    assert found.each == each
    assert found.runs <= budget
    assert ("fits a budget" in found.reason) == (each == 0)


@pytest.mark.parametrize(("effect", "noise"), [(1.0, UNKNOWN), (0.0, Noise(1.0, 4)), (-2.0, Noise(1.0, 4))])
def test_what_cannot_be_planned_takes_the_most(effect: float, noise: Noise) -> None:
    assert (plan(effect, noise).each, plan(effect, noise).power) == (MOST, 0.0)


def test_without_noise_the_least_is_enough() -> None:
    assert (plan(0.01, Noise(0.0, 2)).each, plan(0.01, Noise(0.0, 2)).power) == (4, 1.0)


def test_too_many_rounds_for_any_other() -> None:
    assert plan(2.0, Noise(1.0, 10), round_number=9).each == 0


@pytest.mark.parametrize("candidates", [1, 3, 6])
def test_pure_noise_claims_nothing_in_19_of_20_campaigns(candidates: int) -> None:
    """Whatever was picked, and however: in fresh runs it is the baseline again."""
    rng = random.Random(candidates)
    claimed = 0
    for _ in range(1000):
        base = [rng.gauss(0, 1) for _ in range(6)]
        runs = {index: [rng.gauss(0, 1) for _ in range(5)] for index in range(candidates)}
        claimed += any(found.claim is CONFIRMED for found in confirm(UP, base, runs).values())
    assert 0.01 < claimed / 1000 <= 0.05  # nor does it waste its level
