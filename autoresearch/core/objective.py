"""Objective: the metric, its direction, and how a series becomes one number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autoresearch.core.signal import Reading


class Direction(StrEnum):
    """Which values are better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


@dataclass(frozen=True, slots=True)
class Objective:
    """What a campaign pursues: the last finite value of `metric` counts, the best is reported beside it."""

    metric: str
    direction: Direction = Direction.MAXIMIZE

    def better(self, a: float, b: float) -> bool:
        """Whether a beats b; NaN never does."""
        if math.isnan(a):
            return False
        if math.isnan(b):
            return True
        return a > b if self.direction is Direction.MAXIMIZE else a < b

    def series(self, readings: Iterable[Reading]) -> list[tuple[int, float]]:
        """(step, value) of this metric, in the order in which they were read."""
        return [(r.step, r.metrics[self.metric]) for r in readings if self.metric in r.metrics]

    def last(self, series: Sequence[tuple[int, float]]) -> tuple[int, float] | None:
        """The last point; None if there is none or if it is not finite (a diverged run has no result)."""
        return series[-1] if series and math.isfinite(series[-1][1]) else None

    def best(self, series: Sequence[tuple[int, float]]) -> tuple[int, float] | None:
        """The best finite point of a series."""
        best: tuple[int, float] | None = None
        for point in series:
            if math.isfinite(point[1]) and (best is None or self.better(point[1], best[1])):
                best = point
        return best
