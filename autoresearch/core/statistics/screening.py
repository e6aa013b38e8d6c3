"""Screening: an idea that is clearly behind the baseline in a cheap first stage gets no whole run yet.

The stage is the first part of its first run, or a run of its own with cheaper settings. A curve is the validations of
one run, (step, value) in the order of the steps. The best value so far of a run is compared with the best ones that the
baseline's runs had at the same step, once: looking at every validation would end far more runs than the level says. It
is off by default: what starts slowly and wins in the end looks the same. So nothing is decided by it: the idea is
`screened`, and a proof of it runs it whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.noise import mean, noise_in
from autoresearch.core.statistics.student_t import t_quantile

Curve = Sequence[tuple[int, float]]
LEVEL = 0.95  # how often an idea that changes nothing is let pass
LEAST = 3  # runs of the baseline that must have come as far


def behind(curve: Curve, baseline: Sequence[Curve], objective: Objective) -> str:
    """Why a run is clearly behind at the last point of its curve, in words; "" if it is not, or nothing tells."""
    step = curve[-1][0] if curve else 0
    reached = [[point for point in one if point[0] <= step] for one in baseline if one and one[-1][0] >= step]
    values = [best[1] for one in reached if (best := objective.best(one)) is not None]
    if (own := objective.best(curve)) is not None:
        return worse(own[1], values, objective, f" at step {step}")
    known = len(values) >= LEAST and noise_in(values).shown_sd is not None
    return f"no finite value up to step {step}, against {_theirs(values)}" if known else ""


def worse(value: float, values: Sequence[float], objective: Objective, where: str = "") -> str:
    """Why a value is clearly worse than those of the baseline's runs, in words; "" if it is not, or nothing tells.

    The bound is the one-sided prediction interval of one more run of the baseline (Student's t).
    """
    sd = noise_in(values).shown_sd
    if sd is None or len(values) < LEAST:
        return ""
    room = objective.change(t_quantile(LEVEL, len(values) - 1) * sd * math.sqrt(1 + 1 / len(values)))
    behind = objective.better(mean(values) - room, value)
    return f"{value:.4g}{where}, clearly behind {_theirs(values)}" if behind else ""


def _theirs(values: Sequence[float]) -> str:
    return f"{mean(values):.4g} of the baseline's {len(values)} runs"
