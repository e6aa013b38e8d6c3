"""A claim: fresh runs, looks that end a test early, failures, and what it costs to make several claims."""

from __future__ import annotations

import math
import random
from dataclasses import asdict, replace
from statistics import fmean

import pytest

from autoresearch.core.campaign.claim import Claim, ClaimEstimate
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.statistics.confirmation import (
    ALPHA,
    Design,
    confirm,
    design,
    fails_more,
    fewest_runs,
    level,
    p_value,
    power,
)
from tests.bench.simulated import proof

CONFIRMED, DEMOTED, UNDECIDED = Claim.CONFIRMED, Claim.DEMOTED, Claim.UNDECIDED
UP = Objective("reward")
DOWN = Objective("loss", Direction.MINIMIZE)
BASE = [9.0, 10.0, 11.0, 10.0]
ONE_LOOK = Design((4,), (0.04,), ())


def plan(round_number: int = 1, candidates: int = 1, budget: int | None = 16) -> Design:
    found = design(round_number, candidates, budget)
    assert found is not None
    return found


def judged(runs: list[float | None], base: list[float | None], looks: Design = ONE_LOOK) -> ClaimEstimate:
    found = confirm(UP, looks, runs, base)
    assert found is not None
    return found


def test_welch_by_hand() -> None:
    """Variances 2/3 and 8/3, four runs each: t = 3 / sqrt(10/12) = 3.286, df = (10/12)^2 / ((1/36 + 16/36) / 3)."""
    found = judged([11.0, 13.0, 15.0, 13.0], [*BASE])
    df = (10 / 12) ** 2 / ((1 / 36 + 16 / 36) / 3)
    assert df == pytest.approx(4.41, abs=0.01)
    assert (found.value, found.baseline, found.n, found.n_baseline, found.alpha) == (13.0, 10.0, 4, 4, 0.04)
    assert found.p == pytest.approx(1 / 70)  # Welch says 0.0131; no permutation of 4 against 4 runs is surer than 1/70
    assert found.claim is CONFIRMED
    nearer = judged([10.0, 12.0, 14.0, 12.0], [*BASE])  # t = 2.191: between p 0.05 and 0.025
    assert nearer.p is not None
    assert 0.04 < nearer.p < 0.05
    assert nearer.claim is DEMOTED


def test_minimise_is_the_mirror_and_reads_as_lower() -> None:
    runs = [11.0, 13.0, 15.0, 13.0]
    up, down = judged([*runs], [*BASE]), confirm(DOWN, ONE_LOOK, [-v for v in runs], [-v for v in BASE])
    assert down is not None
    mirrored = asdict(replace(down, value=13.0, baseline=10.0, reason=up.reason))
    assert asdict(up) == {k: v if isinstance(v, str) else pytest.approx(v) for k, v in mirrored.items()}
    assert up.reason.startswith("confirmed: 13, +3 against") and down.reason.startswith("confirmed: -13, -3 against")
    worse = confirm(DOWN, ONE_LOOK, [*runs], [*BASE])
    assert worse is not None and worse.claim is DEMOTED and worse.gain == pytest.approx(-3, abs=0.001)


@pytest.mark.parametrize(("objective", "sign"), [(UP, 1), (DOWN, -1)])
def test_a_claim_may_have_to_exceed_a_gain(objective: Objective, sign: int) -> None:
    runs, base = [sign * value for value in (11.0, 13.0, 15.0, 13.0)], [sign * value for value in BASE]
    plain, small, large = (confirm(objective, ONE_LOOK, runs, base, (), least) for least in (0.0, 0.3, 2.0))
    assert plain and small and large
    assert (plain.claim, small.claim, large.claim) == (CONFIRMED, CONFIRMED, DEMOTED)
    assert small.p is not None and large.p is not None and small.p < large.p
    assert large.gain == pytest.approx(3.0, abs=0.2) and "of more than 2" in large.reason


def test_power_grows_with_the_gain_and_without_one_is_below_the_level() -> None:
    chances = [power(plan(), gain) for gain in (0.0, 1.0, 1.5, 3.0)]
    assert chances == sorted(chances) and chances[0] <= level(1) and chances[-1] > 0.99
    assert power(plan(budget=8), 1.5) < chances[2] < power(plan(budget=40), 1.5), "more runs see more"


def test_the_sentence_has_the_numbers_and_names_what_is_missing() -> None:
    found = judged([11.0, 13.0, 15.0, 13.0], [*BASE])
    assert found.gain_low is not None and found.gain_high is not None
    ends = f"{found.gain_low:+.3g} to {found.gain_high:+.3g}"
    about = f"90 % interval {ends}; 4 fresh runs against 4, none failed"
    assert found.reason == f"confirmed: 13, +3 against the baseline's 10 ({about}); p = 0.014, 0.04 needed"
    some = confirm(UP, Design((5,), (0.04,), ()), [20.0, 21.0, None, 22.0, 21.0], [*BASE, None])
    assert some is not None and "4 fresh runs against 4; 1 of its 5 and 1 of the baseline's 5 failed" in some.reason


@pytest.mark.parametrize(
    ("runs", "base", "claim"),
    [
        ([20.0] * 4, [10.0] * 4, CONFIRMED),  # no noise at all
        ([10.0] * 4, [10.0] * 4, DEMOTED),
        ([9.0] * 4, [10.0] * 4, DEMOTED),
        ([20.0, None, math.nan, math.inf], BASE, DEMOTED),  # too few to test, but it fails more often
        ([20.0, 21.0, 22.0, None], BASE, DEMOTED),  # it fails more often
        ([20.0, 21.0, 22.0, None], [10.0, 10.5, 11.0, None], UNDECIDED),  # 1 / C(6, 3) = 0.05
        ([20.0, 21.0, 22.0, 21.0], [10.0, None, None, None], UNDECIDED),
        ([1.7e308, -1.7e308, 0.0, 1.0], [0.0, 1.0, 2.0, -1.7e308], DEMOTED),
    ],
)
def test_one_candidate(runs: list[float | None], base: list[float | None], claim: Claim) -> None:
    assert judged([*runs], [*base]).claim is claim


def test_a_test_ends_at_the_first_look_that_tells() -> None:
    base = [0.0, 1.0, -1.0, 0.5, -0.5, 0.2, 0.4, -0.3]
    far, none, near = [v + 4 for v in base], [v - 0.1 for v in base], [v + 0.9 for v in base]
    looks = plan()
    assert looks.sizes == (4, 6, 8)
    assert confirm(UP, looks, far[:3], base) is None
    assert confirm(UP, looks, far[:4], base[:4]) == confirm(UP, looks, far, base), "later runs change nothing"
    assert judged([*far], [*base], looks).n == 4
    hopeless = judged([*none], [*base], looks)
    assert (hopeless.claim, hopeless.n) == (DEMOTED, 4)
    assert confirm(UP, looks, near[:4], base[:4]) is None
    assert judged([*near], [*base], looks).n > 4


def test_a_gain_claimed_at_a_later_look_is_less_than_the_difference() -> None:
    base = [0.0, 1.0, -1.0, 0.5, -0.5, 0.2, 0.4, -0.3]
    late = judged([v + 0.9 for v in base], [*base], plan())
    assert late.claim is CONFIRMED and late.n == 8
    assert late.gain is not None and late.gain_low is not None and late.value is not None and late.baseline is not None
    assert late.gain_low < late.gain < late.value - late.baseline == pytest.approx(0.9)


def test_failures_come_first() -> None:
    good = [20.0, 21.0, 22.0, 21.0, 20.5, 21.5, 20.0, 21.0]
    base = [10.0, 11.0, 9.0, 10.0, 10.5, 9.5, 10.2, 10.0]
    looks = plan()
    lossy = [*good[:3], None, *good[4:7], None]
    found = judged([*lossy], [*base], looks)
    assert (found.claim, found.failed, found.failed_baseline) == (DEMOTED, 2, 0)
    assert found.reason.endswith("it fails more often: 2 of 8 runs have no metric, 0 of all 8 of the baseline's")
    both = judged([*lossy], [*base[:2], None, *base[3:6], None, base[7]], looks)
    assert both.claim is CONFIRMED and both.failed == both.failed_baseline


def test_a_gain_is_not_taken_down_for_looks_at_which_only_failures_kept_the_test_open() -> None:
    good = [20.0, 21.0, None, 21.0, 20.5, 21.5, 20.0, 21.0]
    base = [10.0, 11.0, 9.0, 10.0, 10.5, 9.5, 10.2, 10.0]
    found = judged([*good], [*base], plan())
    assert found.claim is DEMOTED and found.gain == pytest.approx(found.value - found.baseline, rel=0.01)


def test_fishers_exact_test_by_hand() -> None:
    """2 of 4 against 1 of 6 failed: (C(3,2) C(7,2) + C(3,3) C(7,1)) / C(10,4) = 70 / 210."""
    assert fails_more([None, None, 1.0, 1.0], [None, *[1.0] * 5]).startswith("it fails more often: 2 of 4")
    assert not fails_more([None, 1.0, 1.0, 1.0], [None, *[1.0] * 3])  # 1 - C(6,4) / C(8,4) = 0.786
    assert not fails_more([1.0] * 4, [None] * 4)
    assert not fails_more([1.0], [1.0])
    assert fails_more([math.nan], [1.0])


def test_the_baseline_s_earlier_runs_count_where_failures_are_compared() -> None:
    runs, base = [20.0, 21.0, None, 22.0, 21.0], [*BASE, 10.0]
    looks = Design((5,), (0.04,), ())
    alone = confirm(UP, looks, runs, base)
    more = confirm(UP, looks, runs, base, [None, None, 10.0, 10.0])
    assert alone is not None and more is not None
    assert (alone.claim, more.claim) == (DEMOTED, CONFIRMED)


def test_rounds_spend_what_is_left() -> None:
    assert [level(n) for n in (1, 2, 3)] == pytest.approx([0.04, 0.005, 0.005 / 3])
    assert sum(level(n) for n in range(1, 10_000)) == pytest.approx(ALPHA, abs=1e-5)


@pytest.mark.parametrize("round_number", range(1, 12))
def test_every_round_of_a_long_campaign_fits_the_usual_budget(round_number: int) -> None:
    found = plan(round_number)
    assert 2 * found.sizes[-1] <= 16
    runs, base = [20.0 + n / 10 for n in range(8)], [10.0 + n / 10 for n in range(8)]
    assert judged([*runs], [*base], found).claim is CONFIRMED, "a claim is possible"


@pytest.mark.parametrize(
    ("candidates", "budget", "sizes"),
    [
        *[(1, 16, (4, 6, 8)), (1, 12, (4, 6)), (1, 8, (4,)), (1, 7, None)],
        *[(1, 40, (5, 7, 10, 15, 20)), (1, 999, (5, 7, 10, 15, 22, 33, 40))],
        *[(2, 14, (4,)), (2, 21, (5, 7)), (2, 27, (5, 7, 9)), (3, 16, None)],
    ],
)
def test_the_budget_bounds_it(candidates: int, budget: int, sizes: tuple[int, ...] | None) -> None:
    found = design(1, candidates, budget)
    assert (found and found.sizes) == sizes
    assert (budget >= fewest_runs(1, candidates)) == (found is not None)


@pytest.mark.parametrize("candidates", [1, 2, 4])
def test_pure_noise_claims_nothing_in_19_of_20_campaigns(candidates: int) -> None:
    """Whatever was picked, and however: in fresh runs it is the baseline again. Standard error below 0.007."""
    rng, looks = random.Random(candidates), design(1, candidates)
    assert looks is not None
    claimed = 0
    for _ in range(1000):
        base = [rng.gauss(0, 1) for _ in range(looks.sizes[-1])]
        runs = [[rng.gauss(0, 1) for _ in base] for _ in range(candidates)]
        claimed += any(first_claim(one, base, looks) is CONFIRMED for one in runs)
    assert 0.01 < claimed / 1000 <= 0.05  # nor does it waste its level


@pytest.mark.parametrize("lost", [0.1, 0.2, 0.4])
def test_ideas_that_lose_their_worst_runs_are_not_claimed(lost: float) -> None:
    """The worst share of a worthless idea's runs yields no number; the rest looks better than it is. Error 0.007."""
    rng, looks = random.Random(8), plan()
    cut = sorted(rng.gauss(0, 1) for _ in range(20_000))[int(20_000 * lost)]
    claimed = 0
    for _ in range(1000):
        base = [rng.gauss(0, 1) for _ in range(8)]
        runs = [value if value > cut else None for value in (rng.gauss(0, 1) for _ in base)]
        claimed += first_claim(runs, base, looks, [rng.gauss(0, 1) for _ in range(5)]) is CONFIRMED
    assert claimed / 1000 <= 0.05


def first_claim(
    runs: list[float | None],
    base: list[float],
    looks: Design,
    earlier: list[float] = [],  # noqa: B006 - not changed
) -> Claim | None:
    """The claim of a test, without the estimate, which takes longer than all the rest."""
    for size, alpha, futile in zip(looks.sizes, looks.levels, (*looks.futile, 0.0), strict=True):
        ours = [value for value in runs[:size] if value is not None]
        p = p_value(UP, ours, base[:size])
        if p <= alpha and not fails_more(runs[:size], [*base[:size], *earlier]):
            return CONFIRMED
        if p > futile:
            return DEMOTED
    return None


def test_an_interval_is_as_wide_as_student_s_t_has_it_however_sure_the_claim() -> None:
    """Standard error sqrt((2/3 + 2/3) / 4) = 0.577, 6 degrees of freedom, t(0.95, 6) = 1.943; no bound on p counts."""
    found = judged([110.0, 111.0, 109.0, 110.0], [*BASE])
    assert found.gain == pytest.approx(100.0, abs=1e-3)
    assert (found.gain_low, found.gain_high) == (pytest.approx(98.878, abs=2e-3), pytest.approx(101.122, abs=2e-3))


def test_intervals_cover_what_they_promise_and_gains_are_as_often_too_low_as_too_high() -> None:
    """60 tests of a gain of 1 sd: the standard errors are 0.04 and 0.06."""
    tests = [proof(1.0, seed) for seed in range(60)]
    assert fmean(test.covered for test in tests) == pytest.approx(0.9, abs=0.12)
    assert fmean(test.gain > 1.0 for test in tests) == pytest.approx(0.5, abs=0.19)


def test_equal_runs_give_no_interval() -> None:
    looks = design(budget=16)
    assert looks is not None
    found = confirm(Objective("acc"), looks, [0.9] * 4, [0.5] * 4)
    assert found is not None and found.claim is Claim.CONFIRMED
    assert found.gain == pytest.approx(0.4) and found.interval(Objective("acc")) is None
    assert "interval" not in found.reason
