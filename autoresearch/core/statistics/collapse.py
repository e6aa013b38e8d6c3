"""Collapse: a run whose result lies so far below the others that it is a failure with a number.

RL runs diverge now and then: a policy collapses, and its reward stays at the bottom. One such value among five moves
their mean by several standard deviations and makes the noise look three times as large, so that nothing is found any
more. A run counts as collapsed if it is worse than the median of the campaign by more than CUT robust standard
deviations (1.4826 times the median absolute deviation; P. J. Rousseeuw and C. Croux, JASA 88, 1993). The median is that
of the baseline's runs and of the first run of each idea, which were not selected. The final claim leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.statistics.noise import measured

CUT = 3.0
FEWEST = 8
"""With fewer values too little is known: of five normal ones, one in thirty would count as collapsed."""


def floor_of(objective: Objective, values: Iterable[float | None]) -> float | None:
    """The value beyond which a run has collapsed, in the metric's unit; None if too little is known."""
    usual = measured(values)
    if len(usual) < FEWEST:
        return None
    middle = median(usual)
    spread = 1.4826 * median(abs(value - middle) for value in usual)
    if not spread:  # most are equal: a coarse metric, of which nothing can be said
        return None
    return middle - CUT * spread if objective.direction is Direction.MAXIMIZE else middle + CUT * spread


def collapsed(objective: Objective, value: float, floor: float | None) -> bool:
    """Whether a value is of a run that collapsed."""
    return floor is not None and objective.better(floor, value)


def survivors(objective: Objective, values: Sequence[float | None], floor: float | None) -> list[float]:
    """The values of the runs that neither failed nor collapsed; if all collapsed, all: that is how the idea is."""
    finite = measured(values)
    return [value for value in finite if not collapsed(objective, value, floor)] or finite
