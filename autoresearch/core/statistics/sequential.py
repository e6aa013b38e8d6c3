"""Group-sequential tests: looks at a growing sample that share one level, and an estimate that allows for them.

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
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
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


@lru_cache(maxsize=256)
def levels(alpha: float, sizes: tuple[int, ...]) -> tuple[float, ...]:
    """The one-sided p-value that each look has to reach, so that together they spend `alpha`."""
    found: list[float] = []
    density: list[tuple[float, float]] = []  # of B at the last look, where the test went on: (point, weight)
    before = 0.0
    for size in sizes:
        t = size / sizes[-1]
        own = alpha * (t - before)
        bound = _root(lambda b: _beyond(density, b, t, before) - own, -_FAR, _FAR)  # noqa: B023 - called at once
        found.append(_NORMAL.cdf(-bound / math.sqrt(t)))
        density = _onwards(density, (-_FAR * math.sqrt(t), bound), t, before)
        before = t
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


def expected_size(design: Design, theta: float) -> float:
    """The expected runs of each side until a test with this drift ends."""
    if math.isinf(theta):
        return float(design.sizes[0])
    times, total, before = design.times, float(design.sizes[0]), 0.0
    density: list[tuple[float, float]] = []
    for look, futile in enumerate(design.futile):
        t, level = times[look], design.levels[look]
        edges = (-_NORMAL.inv_cdf(futile) * math.sqrt(t), -_NORMAL.inv_cdf(level) * math.sqrt(t))
        density = _onwards(density, edges, t, before, theta)
        total += (design.sizes[look + 1] - design.sizes[look]) * math.fsum(weight for _, weight in density)
        before = t
    return total


def _drift(design: Design, look: int, z: float, share: float) -> float:
    """The drift under which a result at least as good as this one has the probability `share`."""
    far = _FAR + abs(z) / math.sqrt(design.times[look])
    return _root(lambda theta: share - _as_good(design, look, z, theta), -far, far, within=1e-4)


def _as_good(design: Design, look: int, z: float, theta: float) -> float:
    """Probability of an earlier rejection, or of one as strong at the same look, if this is the drift.

    Of a test that ended for futility: 1 less the probability of a result as bad, where an earlier end is the worse one.
    """
    times = design.times
    up = [-_NORMAL.inv_cdf(level) * math.sqrt(t) for level, t in zip(design.levels, times, strict=True)]
    down = [-_NORMAL.inv_cdf(p) * math.sqrt(t) for p, t in zip(design.futile, times, strict=False)]
    value = z * math.sqrt(times[look])
    good = value >= up[look] or look == len(times) - 1
    density: list[tuple[float, float]] = []
    total, before = 0.0, 0.0
    for stage in range(look):
        t = times[stage]
        edge = up[stage] if good else down[stage]
        total += _beyond(density, edge, t, before, theta, above=good)
        density = _onwards(density, (down[stage], up[stage]), t, before, theta)
        before = t
    total += _beyond(density, value, times[look], before, theta, above=good)
    return total if good else 1 - total


def _beyond(
    density: Sequence[tuple[float, float]], edge: float, t: float, before: float, theta: float = 0.0, *,
    above: bool = True,
) -> float:  # fmt: skip
    """Probability that the test goes on until time t and that B(t) is above (or below) the edge."""
    sd, shift = math.sqrt(t - before), theta * (t - before)
    sign = 1.0 if above else -1.0
    points = density or ((0.0, 1.0),)
    return math.fsum(weight * _NORMAL.cdf(sign * (x + shift - edge) / sd) for x, weight in points)


def _onwards(
    density: Sequence[tuple[float, float]], between: tuple[float, float], t: float, before: float, theta: float = 0.0
) -> list[tuple[float, float]]:
    """The density of B(t) between two boundaries, as points with weights."""
    low, high = between
    sd, shift = math.sqrt(t - before), theta * (t - before)
    step = (high - low) / (_POINTS - 1)
    points = density or ((0.0, 1.0),)
    found = []
    for i in range(_POINTS):
        x = low + i * step
        simpson = step / 3 * (1 if i in (0, _POINTS - 1) else 4 if i % 2 else 2)
        at = math.fsum(w * math.exp(-0.5 * ((x - y - shift) / sd) ** 2) for y, w in points)
        found.append((x, simpson * at / (sd * math.sqrt(2 * math.pi))))
    return found


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
