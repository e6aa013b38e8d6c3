"""Pruning: stop a run early if its learning curve is so far behind others that it is not worth continuing.

A curve is the validations of one run, (step, value) in the order of the steps. The rule looks at nothing else and
stops nothing before the first validation after the declared warm-up. It is off by default: it also stops curves that
start slowly and would win in the end.

Median rule: Golovin et al., "Google Vizier", KDD 2017, 3.1 (with the best value so far, as Optuna has it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.metrics.objective import Objective

Curve = Sequence[tuple[int, float]]
PRUNED = "pruned"  # cause of the stop in the exit record, failure in the row, status of the attempt


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run is to be stopped."""

    step: int  # of the validation that decided
    value: float  # of the run
    bound: float  # the value that the run had to reach
    others: int  # number of curves that it was compared with

    def __str__(self) -> str:
        return f"{self.value:.4g} at step {self.step}, behind {self.bound:.4g} of {self.others} other runs"


@dataclass(frozen=True, slots=True)
class MedianRule:
    """Stops a run whose best value so far is worse than the median of the others at the same step."""

    warmup: int  # steps; runs are judged from the first validation after them on
    least: int = 4  # other curves that must have reached the step before a run is judged

    def judge(self, curve: Curve, others: Sequence[Curve], objective: Objective) -> Stop | None:
        """Judge the last point of `curve` against the curves of other runs, finished and running; None: continue."""
        if not curve or curve[-1][0] <= self.warmup:
            return None
        step = curve[-1][0]
        bars = [value for other in others if (value := value_at(other, step)) is not None]
        if len(bars) < max(1, self.least):
            return None
        from statistics import median  # brings fractions and decimal, which few commands need

        bound, best = median(bars), objective.best(curve)
        if best is not None and not objective.better(bound, best[1]):
            return None
        return Stop(step, curve[-1][1] if best is None else best[1], bound, len(bars))


def value_at(curve: Curve, step: int) -> float | None:
    """The last finite value of a run up to a step; None if the run has not reached the step."""
    if not curve or curve[-1][0] < step:
        return None
    values = [value for at, value in curve if at <= step and math.isfinite(value)]
    return values[-1] if values else None
