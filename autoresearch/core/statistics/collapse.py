"""Collapse: a run whose result lies so far below the other runs of its idea that it is a failure with a number.

RL runs diverge now and then: a policy collapses, and its reward stays at the bottom. One such value among five moves
their mean by several standard deviations and makes the noise look three times as large, so that nothing is found any
more. A run has collapsed if it is worse than the median of its own idea's n runs by more than CUT sqrt(n / (n - 1))
robust standard deviations: where other ideas are says nothing of it. Of an even number the better one of the middle two
is the median, so that at least half of an idea's runs survive; a single run has nothing to be compared with. The final
claim leaves nothing out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.statistics.noise import measured

CUT = 2.75
FEWEST = 10
"""Values beyond the first of their group, from which on a robust standard deviation is known well enough."""
QUARTILE = 2.2219  # standard deviations of a normal value in a lower quartile of the differences of two


def robust_sd(objective: Objective, groups: Sequence[Sequence[float]]) -> float | None:
    """The standard deviation of a value within its group, whatever a few of them are; None if too little is known.

    In proportion to the lower quartile of the differences within a group, in which a group weighs as many values as it
    has beyond its first (P. J. Rousseeuw and C. Croux, JASA 88, 1993); the second time without collapsed values.
    """
    if sum(max(len(values) - 1, 0) for values in groups) < FEWEST:
        return None
    sd = _from_quartile(groups)
    return sd and _from_quartile([survivors(objective, values, sd) for values in groups])


def _from_quartile(groups: Sequence[Sequence[float]]) -> float | None:
    pairs = sorted((abs(a - b), 2 / len(values)) for values in groups for a, b in combinations(values, 2))
    quarter = sum(weight for _, weight in pairs) / 4
    for difference, weight in pairs:
        quarter -= weight
        if quarter <= 0:
            return QUARTILE * difference or None  # 0: a coarse metric, of which nothing can be said
    return None


def collapsed(objective: Objective, values: Sequence[float | None], sd: float | None) -> list[float]:
    """Those of an idea's values that are of runs that collapsed."""
    finite = measured(values)
    if sd is None or len(finite) < 2:
        return []
    best_first = sorted(finite, reverse=objective.direction is Direction.MAXIMIZE)
    middle, far = best_first[(len(finite) - 1) // 2], CUT * sd * math.sqrt(len(finite) / (len(finite) - 1))
    return [value for value in finite if objective.better(middle, value) and abs(value - middle) > far]


def survivors(objective: Objective, values: Sequence[float | None], sd: float | None) -> list[float]:
    """The values of the runs that neither failed nor collapsed, in their order."""
    fallen = collapsed(objective, values, sd)
    return [value for value in measured(values) if value not in fallen]
