"""Pruning: stop a run early if its learning curve is so far behind others that it is not worth continuing.

A curve is the validations of one run, (step, value) in the order of the steps. Rules look at nothing else and
stop nothing before the first validation after the declared warm-up. They are off by default: they also stop
curves that start slowly and would win in the end. `replay` shows whether they would have done so on past runs.

Median rule: Golovin et al., "Google Vizier", KDD 2017, 3.1 (with the best value so far, as Optuna has it).
Successive halving, asynchronous: Li et al., "A System for Massively Parallel Hyperparameter Tuning",
arXiv:1810.05934.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.metrics.objective import Direction, Objective

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

        return _behind(curve, median(bars), len(bars), objective)


@dataclass(frozen=True, slots=True)
class HalvingRule:
    """Stops a run at a rung unless it is among the best 1/eta of all runs that have reached it."""

    warmup: int
    eta: int = 3  # at least 2

    def judge(self, curve: Curve, others: Sequence[Curve], objective: Objective) -> Stop | None:
        """Compare best values so far (see the class). With fewer than eta curves at a rung, no run is stopped."""
        if not self._at_rung(curve):
            return None
        step = curve[-1][0]
        come = [[point for point in other if point[0] <= step] for other in others if other and other[-1][0] >= step]
        bars = [best for other in come if (best := _best(other, objective)) is not None]
        stay = (len(bars) + 1) // max(2, self.eta)
        if not stay:
            return None
        ranked = sorted(bars, reverse=objective.direction is Direction.MAXIMIZE)
        return _behind(curve, ranked[stay - 1], len(bars), objective)

    def _at_rung(self, curve: Curve) -> bool:
        """Whether the last point is the first at or after a rung's step."""
        steps = [step for step, _ in curve if step > self.warmup]
        if not steps:
            return False
        rung, before = steps[0], steps[-2] if len(steps) > 1 else 0
        while rung <= before:
            rung *= max(2, self.eta)
        return steps[-1] >= rung


PruningRule = MedianRule | HalvingRule


def value_at(curve: Curve, step: int) -> float | None:
    """The last finite value of a run up to a step; None if the run has not reached the step."""
    if not curve or curve[-1][0] < step:
        return None
    values = [value for at, value in curve if at <= step and math.isfinite(value)]
    return values[-1] if values else None


def _behind(curve: Curve, bar: float, others: int, objective: Objective) -> Stop | None:
    own = _best(curve, objective)
    if own is not None and not objective.better(bar, own):
        return None
    return Stop(curve[-1][0], curve[-1][1] if own is None else own, bar, others)


def _best(curve: Curve, objective: Objective) -> float | None:
    best = objective.best(curve)
    return None if best is None else best[1]
