"""Confirmation: whether a kept idea may be claimed to beat the baseline. docs/judge.md says it in formulas.

A kept idea is the best of many tries, so the runs that selected it overestimate it. A claim therefore rests only on
fresh runs of the candidates and of the baseline, by a rule that is fixed before their first run: failures first (R. A.
Fisher's exact test: runs that survive are the better ones, so an idea that loses its bad runs looks good in the rest),
then the values (one-sided Welch's t-test, Biometrika 34, 1947). No p-value is below 1 / C(n + m, n), the smallest
possible one of a permutation test of n against m runs: four equal values against four others prove little, however
small their spread. Whatever is simulated of it is in `python -m tests.bench judge`.

Group-sequential tests: looks at a growing sample that share one level, and an estimate that allows for them.

The statistic is treated as a Brownian motion B with drift theta, seen at the information times t = n / (largest n):
B(t) is normal with mean theta * t and variance t (C. Jennison and B. W. Turnbull, *Group Sequential Methods*, 2000,
chapters 2, 7 and 8). Probabilities over several looks are integrated numerically from one look to the next.

- The level spent until time t is alpha * t (a linear spending function; K. K. G. Lan and D. L. DeMets, Biometrika 70,
  1983). Stopping for futility is not used to win level back, so that the level holds whether or not it is obeyed.
- The estimate is median-unbiased in the stage-wise ordering, in which an earlier rejection is the stronger evidence
  (A. A. Tsiatis, G. L. Rosner and C. R. Mehta, Biometrics 40, 1984): the drift under which a result as extreme as this
  one has probability 1/2. The ends of its interval have the tails' probabilities instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from statistics import NormalDist

from autoresearch.core.campaign.claim import Claim, ClaimEstimate
from autoresearch.core.campaign.decision import gain
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.noise import mean, measured, variance
from autoresearch.core.statistics.student_t import share_p, t_cdf, t_quantile

_NORMAL = NormalDist()
_HIGHER = Objective("metric")
_POINTS = 41  # of Simpson's rule between two boundaries: errors below 1e-5
_FAR = 8.0  # standard deviations


@dataclass(frozen=True, slots=True)
class Design:
    """The looks of one test."""

    sizes: tuple[int, ...]  # runs of each side at the looks, growing
    levels: tuple[float, ...]  # the one-sided p-value that a look has to reach
    futile: tuple[float, ...]  # p-values above which the test ends without a claim; the last look needs none

    @property
    def times(self) -> tuple[float, ...]:
        """Information times of the looks; the last is 1."""
        return tuple(size / self.sizes[-1] for size in self.sizes)

    @property
    def up(self) -> list[float]:
        """What B has to reach at each look for a claim."""
        return [-_NORMAL.inv_cdf(p) * math.sqrt(t) for p, t in zip(self.levels, self.times, strict=True)]

    @property
    def down(self) -> list[float]:
        """What B has to reach at each look but the last for the test to go on."""
        return [-_NORMAL.inv_cdf(p) * math.sqrt(t) for p, t in zip(self.futile, self.times, strict=False)]


class _Motion:
    """B(t) of a test that goes on: its density at the last look, as points with weights."""

    def __init__(self, theta: float = 0.0) -> None:
        self.theta, self.t = theta, 0.0
        self.points: list[tuple[float, float]] = [(0.0, 1.0)]

    def beyond(self, edge: float, t: float, *, above: bool = True) -> float:
        """Probability that the test goes on until time t and that B(t) is above (or below) the edge."""
        sd, shift = math.sqrt(t - self.t), self.theta * (t - self.t)
        sign = 1.0 if above else -1.0
        return math.fsum(weight * _NORMAL.cdf(sign * (x + shift - edge) / sd) for x, weight in self.points)

    def go_on(self, low: float, high: float, t: float) -> None:
        """Go on to time t, where the test ends unless B(t) lies between the two."""
        sd, shift = math.sqrt(t - self.t), self.theta * (t - self.t)
        step = (high - low) / (_POINTS - 1)
        found = []
        for i in range(_POINTS):
            x = low + i * step
            simpson = step / 3 * (1 if i in (0, _POINTS - 1) else 4 if i % 2 else 2)
            at = math.fsum(w * math.exp(-0.5 * ((x - y - shift) / sd) ** 2) for y, w in self.points)
            found.append((x, simpson * at / (sd * math.sqrt(2 * math.pi))))
        self.points, self.t = found, t


@lru_cache(maxsize=256)
def levels(alpha: float, sizes: tuple[int, ...], planned: int = 0) -> tuple[float, ...]:
    """The one-sided p-value that each look has to reach, so that together they spend `alpha`.

    planned: the size of the last look in a test that time ended before it. What is left is spent where it ended.
    """
    found: list[float] = []
    motion = _Motion()
    for size in sizes:
        t = size / (planned or sizes[-1])
        own = alpha * ((t if size < sizes[-1] else 1.0) - motion.t)
        bound = _root(lambda b: motion.beyond(b, t) - own, -_FAR, _FAR)  # noqa: B023 - called at once
        found.append(_NORMAL.cdf(-bound / math.sqrt(t)))
        motion.go_on(-_FAR * math.sqrt(t), bound, t)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A drift, and the ends of its interval; in units of `1 / sqrt(information at the last look)`."""

    middle: float
    low: float
    high: float


def estimate(design: Design, look: int, z: float, *, coverage: float = 0.9) -> Estimate:
    """The estimate after a test that ended at this look (counted from 0), with this z-value."""
    tail = (1 - coverage) / 2
    ends = [_drift(design, look, z, share) for share in (0.5, tail, 1 - tail)]
    return Estimate(*ends)


def _drift(design: Design, look: int, z: float, share: float) -> float:
    """The drift under which a result at least as good as this one has the probability `share`."""
    far = _FAR + abs(z) / math.sqrt(design.times[look])
    return _root(lambda theta: share - _as_good(design, look, z, theta), -far, far, within=1e-4)


def _as_good(design: Design, look: int, z: float, theta: float) -> float:
    """Probability of an earlier rejection, or of one as strong at the same look, if this is the drift.

    Of a test that ended for futility: 1 less the probability of a result as bad, where an earlier end is the worse one.
    """
    times, motion, total = design.times, _Motion(theta), 0.0
    value = z * math.sqrt(times[look])
    good = value >= design.up[look] or look == len(times) - 1
    for t, low, high in zip(times[:look], design.down, design.up, strict=False):
        total += motion.beyond(high if good else low, t, above=good)
        motion.go_on(low, high, t)
    total += motion.beyond(value, times[look], above=good)
    return total if good else 1 - total


def _root(rising_or_falling: Callable[[float], float], low: float, high: float, *, within: float = 1e-7) -> float:
    """Where a monotonic function is 0; an end of the range if nowhere."""
    falls = rising_or_falling(low) > rising_or_falling(high)
    while high - low > within:
        middle = (low + high) / 2
        if (rising_or_falling(middle) > 0) == falls:
            low = middle
        else:
            high = middle
    return (low + high) / 2


ALPHA = 0.05
"""Probability that a campaign in which nothing works claims anything at all."""
FAILING = 0.5
"""The exact test's p-value at or below which a candidate fails more often than the baseline. Far above the usual 0.05:
with 8 runs that would let nearly everything pass, also ideas whose worst runs never yield a number."""
FUTILE_SLOPE = 4 * _NORMAL.inv_cdf(0.75)
"""How fast the z-value below which a test ends without a claim rises with the time: p = 0.5 half way, 0.25 at 3/4."""
COVERAGE = 0.9
"""Of the interval of a gain."""
STEP = 2  # runs of each side between two looks, or half of those so far
FEWEST = 4  # runs of each side at the first look
POWER_TESTS = 2000
MOST = 40  # runs of each side that any design may need


def level(round_number: int, alpha: float = ALPHA) -> float:
    """What a round (counted from 1) may spend: 0.8 of alpha, then 0.2 / (r (r - 1)) of it, which sums to alpha.

    0.04, 0.005, 0.0017, 0.0008 ... for the default alpha: the first claim is worth most, and a campaign that goes on
    for long can still make one.
    """
    return alpha * (0.8 if round_number == 1 else 0.2 / (round_number * (round_number - 1)))


def design(round_number: int = 1, candidates: int = 1, budget: int | None = None) -> Design | None:
    """The looks of a round that tests so many candidates against one baseline; None if the budget allows none.

    `budget`: fresh runs of all sides together. The first look is the smallest at which a claim is possible, and each of
    the following ones has half as many runs again, until the budget is spent.
    """
    alpha = level(round_number) / candidates
    most = MOST if budget is None else min(MOST, budget // (candidates + 1))
    for first in range(FEWEST, most + 1):
        looks = design_at(alpha, _sizes(first, most))
        if _sharpest(first, first) <= looks.levels[0]:
            return looks
    return None


def _sizes(first: int, most: int) -> tuple[int, ...]:
    found = [first]
    while (following := min(found[-1] + max(STEP, found[-1] // 2), most)) >= found[-1] + STEP:
        found.append(following)
    return tuple(found)


def design_at(alpha: float, sizes: tuple[int, ...], planned: int = 0) -> Design:
    """The test with looks at these sizes that spends `alpha`; `planned`: as for `levels`."""
    futile = (_NORMAL.cdf(-FUTILE_SLOPE * (size / (planned or sizes[-1]) - 0.5)) for size in sizes[:-1])
    return Design(sizes, levels(alpha, sizes, planned), tuple(futile))


def fewest_runs(round_number: int = 1, candidates: int = 1) -> int:
    """The smallest budget that allows a round."""
    alone = next(n for n in range(FEWEST, MOST + 1) if _sharpest(n, n) <= level(round_number) / candidates)
    return alone * (candidates + 1)


def confirm(
    objective: Objective,
    looks: Design,
    candidate: Sequence[float | None],
    baseline: Sequence[float | None],
    earlier: Sequence[float | None] = (),
    least: float = 0.0,
) -> ClaimEstimate | None:
    """Judge a candidate by its fresh runs and the baseline's, in the order in which they were begun; None: more to run.

    `least`: the gain, in the metric's unit, that a claim has to exceed.

    A None is a run without the metric by its own fault; runs that the machine ended are left out and replaced.
    `earlier`: the baseline's runs of the search. It was not selected, so they count where failures are compared.
    """
    for look, size in enumerate(looks.sizes):
        if min(len(candidate), len(baseline)) < size:
            return None
        result = _look(objective, looks, look, candidate[:size], baseline[:size], earlier, least)
        if result is not None:
            return result
    raise AssertionError("the last look decides")


def unfinished(candidate: Sequence[float | None], baseline: Sequence[float | None], why: str) -> ClaimEstimate:
    """The result of a test that cannot be finished: no claim."""
    return replace(_counts(candidate, baseline), claim=Claim.UNDECIDED, reason=f"not decided: {why}")


def _look(
    objective: Objective,
    looks: Design,
    look: int,
    candidate: Sequence[float | None],
    baseline: Sequence[float | None],
    earlier: Sequence[float | None],
    least: float,
) -> ClaimEstimate | None:
    """The result at this look; None if the test goes on."""
    ours, theirs = measured(candidate), measured(baseline)
    last, alpha = look == len(looks.sizes) - 1, looks.levels[look]
    counts = replace(_counts(candidate, baseline), alpha=alpha)
    fails = fails_more([*candidate], [*baseline, *earlier])
    if min(len(ours), len(theirs)) < 2 or _sharpest(len(ours), len(theirs)) > alpha:
        if not last:
            return None
        if fails:
            return replace(counts, claim=Claim.DEMOTED, reason=f"not confirmed: {fails}")
        known = f"{len(ours)} of {len(candidate)} fresh runs and {len(theirs)} of {len(baseline)} of the baseline"
        reason = f"not decided: {known} have the metric: too few to claim anything at {alpha:.2g}"
        return replace(counts, claim=Claim.UNDECIDED, reason=reason)
    tested = [value - objective.change(least) for value in ours]  # that they are better by more than `least`
    p = p_value(objective, tested, theirs)
    passed = p <= alpha and not fails
    if not (passed or last or p > looks.futile[look]):
        return None
    delta = gain(objective, ours, theirs) - least
    middle, low, high = (least + end for end in _gain(looks, look, delta, passed, tested, theirs))
    found = replace(counts, claim=Claim.CONFIRMED if passed else Claim.DEMOTED, gain=middle, p=p)
    if low < high:  # runs of either side that are all equal show no spread, which is no certainty
        found = replace(found, gain_low=low, gain_high=high, coverage=COVERAGE)
    needed = f"{alpha:.2g} needed" + (f", of more than {least:.3g}" if least else "")
    why = fails if found.fails_more else f"p = {p:.2g}, {needed}"
    reason = f"{'confirmed' if passed else 'not confirmed'}: {found.words(objective)}; {why}"
    return replace(found, reason=reason)


def _counts(candidate: Sequence[float | None], baseline: Sequence[float | None]) -> ClaimEstimate:
    """The fresh runs of both sides, with the metric and without."""
    n, m = len(measured(candidate)), len(measured(baseline))
    value, start = mean(measured(candidate)) if n else None, mean(measured(baseline)) if m else None
    failed, theirs = len(candidate) - n, len(baseline) - m
    return ClaimEstimate(value=value, baseline=start, n=n, n_baseline=m, failed=failed, failed_baseline=theirs)


def fails_more(candidate: Sequence[float | None], baseline: Sequence[float | None]) -> str:
    """In words, if a candidate's runs fail more often than the baseline's, by a one-sided exact test; "" if not."""
    ours, theirs = len(candidate) - len(measured(candidate)), len(baseline) - len(measured(baseline))
    if not ours or share_p((ours, len(candidate)), (theirs, len(baseline))) > FAILING:
        return ""
    counts = f"{ours} of {len(candidate)} runs have no metric, {theirs} of all {len(baseline)} of the baseline's"
    return f"it fails more often: {counts}"


@lru_cache(maxsize=64)
def power(looks: Design, effect: float) -> float:
    """The chance that a test claims an idea whose true gain is `effect`, in sd of a run.

    Of POWER_TESTS simulated ones with normal noise and no failures; equal arguments give equal numbers.
    """
    each = 2 * looks.sizes[-1]
    draws = NormalDist().samples(POWER_TESTS * each, seed=0)
    claimed = 0
    for start in range(0, len(draws), each):
        ours, theirs = draws[start : start + each // 2], draws[start + each // 2 : start + each]
        for size, alpha, futile in zip_longest(looks.sizes, looks.levels, looks.futile, fillvalue=0.0):
            p = p_value(_HIGHER, [effect + value for value in ours[: int(size)]], theirs[: int(size)])
            claimed += p <= alpha
            if p <= alpha or p > futile:
                break
    return claimed / POWER_TESTS


def p_value(objective: Objective, ours: Sequence[float], theirs: Sequence[float]) -> float:
    """One-sided; 1 if there is nothing to test."""
    if min(len(ours), len(theirs)) < 2:
        return 1.0
    delta, sharpest = gain(objective, ours, theirs), _sharpest(len(ours), len(theirs))
    se, df = _welch(ours, theirs)
    if se == 0:  # identical values: only the permutation bound applies
        return sharpest if delta > 0 else 1.0
    return max(t_cdf(-delta / se, df), sharpest) if math.isfinite(se) else 1.0


def _welch(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Standard error of the difference of two means, and its degrees of freedom; 0 of them without a spread."""
    a, b = variance(ours) / len(ours), variance(theirs) / len(theirs)
    if not 0 < a + b < math.inf:
        return a + b, 0.0
    share = a / (a + b)
    df = 1 / (share * share / (len(ours) - 1) + (1 - share) * (1 - share) / (len(theirs) - 1))
    return math.sqrt(a + b), df


def _gain(
    looks: Design, look: int, delta: float, passed: bool, ours: Sequence[float], theirs: Sequence[float]
) -> tuple[float, float, float]:
    """The gain adjusted for the looks, and the ends of its interval, in the metric's unit.

    The difference is taken as normal, with a standard error that makes the plain interval as wide as Student's t does.
    Not adjusted where a side has failures: then it is not the values alone that decided how many runs there were.
    """
    se, df = _welch(ours, theirs)
    if not df:
        return delta, delta, delta
    if min(len(ours), len(theirs)) < looks.sizes[look]:
        looks, look = Design(looks.sizes[look : look + 1], looks.levels[look : look + 1], ()), 0
    tail = (1 + COVERAGE) / 2
    unit = se * t_quantile(tail, df) / NormalDist().inv_cdf(tail)
    z, bound = delta / unit, -NormalDist().inv_cdf(looks.levels[look])
    if passed and z < bound:  # by Student's t it passed
        z, unit = bound, delta / bound
    found = estimate(looks, look, z, coverage=COVERAGE)
    unit *= math.sqrt(looks.times[look])
    return found.middle * unit, found.low * unit, found.high * unit


def _sharpest(n: int, m: int) -> float:
    """The smallest p-value that a permutation test of n against m runs can yield."""
    return 1 / math.comb(n + m, n)
