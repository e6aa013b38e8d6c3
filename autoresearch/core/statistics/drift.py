"""Drift: whether runs of one and the same thing give other results later in the night than earlier.

A straight line is fitted to the results by least squares, and its slope is tested by Student's t, two-sided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.statistics.noise import mean
from autoresearch.core.statistics.student_t import t_cdf

LEVEL = 0.05
FEWEST = 6  # runs


@dataclass(frozen=True, slots=True)
class Drift:
    """A slope that chance does not explain."""

    per_hour: float  # in the metric's unit
    change: float  # between the first run and the last
    p: float
    runs: int


def drift(points: Sequence[tuple[float, float]]) -> Drift | None:
    """The drift of results, given as (time in seconds, value); None if none is seen, or too little is known."""
    if len(points) < FEWEST:
        return None
    hours = [t / 3600 for t, _ in points]
    values = [value for _, value in points]
    middle, level = mean(hours), mean(values)
    wide = math.fsum((h - middle) ** 2 for h in hours)
    if not wide:
        return None
    slope = math.fsum((h - middle) * (v - level) for h, v in zip(hours, values, strict=True)) / wide
    rest = math.fsum((v - level - slope * (h - middle)) ** 2 for h, v in zip(hours, values, strict=True))
    df = len(points) - 2
    se = math.sqrt(rest / df / wide)
    p = 2 * t_cdf(-abs(slope) / se, df) if se else 0.0 if slope else 1.0
    if not p <= LEVEL:
        return None
    return Drift(slope, slope * (max(hours) - min(hours)), p, len(points))
