"""Noise: how much the metric varies between runs that differ only in their seed, estimated from replicates.

The estimate uses the replicates of every idea, not only the baseline's: their spreads *within* each idea are pooled
(the residual variance of a one-way layout; Snedecor & Cochran, *Statistical Methods*, 4.8), so that the
estimate improves in the course of a campaign. Three baseline replicates alone leave 2 degrees of freedom, and a
standard deviation that is less than half of the true one in 22 % of all campaigns; therefore decisions never treat
`sd` as exact, but use Student's t with `df`.

Collapse: a run whose result lies so far below the other runs of its idea that it is a failure with a number.

RL runs diverge now and then: a policy collapses, and its reward stays at the bottom. One such value among five moves
their mean by several standard deviations and makes the noise look three times as large, so that nothing is found any
more. A run has collapsed if it is worse than the median of its own idea's n runs by more than CUT sqrt(n / (n - 1))
robust standard deviations: where other ideas are says nothing of it. Of an even number the better one of the middle two
is the median, so that at least half of an idea's runs survive; a single run has nothing to be compared with. The final
claim leaves nothing out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from autoresearch.core.metrics.objective import Direction, Objective

LEAST_DF = 2
"""Of three distinct values: by two, an interval would have to be 12.7 standard errors wide to either side."""


@dataclass(frozen=True, slots=True)
class Noise:
    """How runs scatter around the mean of their idea, in the metric's unit squared: of one idea, or of several.

    With no idea replicated there is no estimate: `df` is 0, `sd` is None, and nothing can be kept.
    An `sd` of 0 is an estimate: every replicate so far gave the same number (a trainer that ignores its seed,
    or a coarse metric).
    """

    squares: float = 0.0  # deviations from the mean of the idea, squared and summed
    df: int = 0  # degrees of freedom: replicates minus one, summed over the ideas

    @property
    def known(self) -> bool:
        return self.df > 0

    @property
    def variance(self) -> float:
        """Variance of a single run; 0 without replicates."""
        return self.squares / self.df if self.df else 0.0

    @property
    def sd(self) -> float | None:
        """Standard deviation of a single run, in the metric's unit; None without replicates."""
        return math.sqrt(self.variance) if self.known else None

    @property
    def shown_sd(self) -> float | None:
        """The same as people and agents are told it: None before LEAST_DF, and of runs that are all equal."""
        return self.sd or None if self.df >= LEAST_DF else None

    def plus(self, values: Iterable[float | None]) -> Noise:
        """This estimate pooled with the replicates of one more idea; runs without a metric are ignored."""
        return pooled((self, noise_in(values)))

    @property
    def wording(self) -> str:
        """The estimate for use in a sentence: `sd 0.012, 5 df`."""
        return "noise unknown" if self.shown_sd is None else f"sd {self.shown_sd:.3g}, {self.df} df"


UNKNOWN = Noise()
"""The estimate before any idea has replicates."""


def noise_in(values: Iterable[float | None]) -> Noise:
    """The noise that one idea's runs show; runs without a metric are ignored."""
    finite = measured(values)
    return Noise(_squares(finite), max(len(finite) - 1, 0))


def pooled(noises: Iterable[Noise]) -> Noise:
    """The noise that several ideas show together, without rounding errors."""
    telling = [noise for noise in noises if noise.known]
    try:
        squares = math.fsum(noise.squares for noise in telling)
    except OverflowError:
        squares = math.inf
    return Noise(squares, sum(noise.df for noise in telling))


def noise_of(ideas: Iterable[Iterable[float | None]]) -> Noise:
    """The pooled noise of ideas, each given as the metric of its runs (the baseline is one of them)."""
    return pooled(map(noise_in, ideas))


def measured(values: Iterable[float | None]) -> list[float]:
    """The finite values: None, NaN and infinities are dropped."""
    return [value for value in values if value is not None and math.isfinite(value)]


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean without overflow in intermediate sums; exact if all values are equal."""
    if min(values) == max(values):
        return values[0]
    return math.fsum(value / len(values) for value in values)


def variance(values: Sequence[float]) -> float:
    """Sample variance (n - 1) of at least two values."""
    return _squares(values) / (len(values) - 1)


def _squares(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return sum((value - middle) * (value - middle) for value in values)  # `**` would raise on overflow


CUT = 2.75
GAP = 0.7
"""Ranges of the surviving runs by which those that collapsed lie below them: a noisy idea has no such gap."""
FEWEST = 6
"""Values beyond the first of their group, from which on a robust standard deviation is known well enough."""
MEDIAN = 1.0483  # standard deviations of a normal value in the median of the differences of two


def robust_sd(objective: Objective, groups: Sequence[Sequence[float]]) -> float | None:
    """The standard deviation of a value within its group, whatever a few of them are; None if too little is known.

    In proportion to the median of the differences within a group, in which a group weighs as many values as it has
    beyond its first (after P. J. Rousseeuw and C. Croux, JASA 88, 1993); the second time without collapsed values.
    Where ideas share their seeds, and so their luck, the groups are alike, and a lower quantile would be of two close
    values.
    """
    if sum(max(len(values) - 1, 0) for values in groups) < FEWEST:
        return None
    sd = _from_median(groups)
    return sd and _from_median([survivors(objective, values, sd) for values in groups])


def _from_median(groups: Sequence[Sequence[float]]) -> float | None:
    pairs = sorted((abs(a - b), 2 / len(values)) for values in groups for a, b in combinations(values, 2))
    half = sum(weight for _, weight in pairs) / 2
    for difference, weight in pairs:
        half -= weight
        if half <= 0:
            return MEDIAN * difference or None  # 0: a coarse metric, of which nothing can be said
    return None


def collapsed(objective: Objective, values: Sequence[float | None], sd: float | None) -> list[float]:
    """Those of an idea's values that are of runs that collapsed."""
    finite = measured(values)
    if sd is None or len(finite) < 2 or max(finite) - min(finite) <= CUT * sd:  # as most are
        return []
    best_first = sorted(finite, reverse=objective.direction is Direction.MAXIMIZE)
    middle, far = best_first[(len(finite) - 1) // 2], CUT * sd * math.sqrt(len(finite) / (len(finite) - 1))
    rest = [value for value in best_first if abs(value - middle) <= far or objective.better(value, middle)]
    fallen = best_first[len(rest) :]
    apart = bool(fallen) and abs(fallen[0] - rest[-1]) > GAP * abs(rest[0] - rest[-1])
    return fallen if apart else []


def survivors(objective: Objective, values: Sequence[float | None], sd: float | None) -> list[float]:
    """The values of the runs that neither failed nor collapsed, in their order."""
    fallen = collapsed(objective, values, sd)
    return [value for value in measured(values) if value not in fallen]
