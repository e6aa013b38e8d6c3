"""Trust: why a person has to approve what an agent's edit has reached, where the edited code measures itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autoresearch.core.agents.suspicion import SETS_OBJECTIVE
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.noise import mean, noise_of

FLAT = "flat: "
"""Begins the flag of a run whose objective is the same at every step, and the baseline's is not."""
FAR = 10.0
"""Standard deviations of the baseline's runs; a gain of more is rarely one of training."""


def distrust(
    objective: Objective,
    values: Sequence[float],
    baseline: Sequence[float],
    flags: Iterable[str],
    *,
    level: float | None,
) -> str:
    """What makes the result doubtful, as a clause; "" if nothing does. `flags`: of its edits and its rows.

    `level`: what it would measure if its own edit did nothing, which may be far above the baseline.
    """
    told = list(flags)
    for flag in told:
        if SETS_OBJECTIVE in flag or flag.startswith(FLAT):
            return flag
    sd = noise_of([baseline]).sd
    if not sd or not values:
        return ""
    if len(values) > 1 and min(values) == max(values):
        return f"all its {len(values)} runs are equal ({values[0]:.4g}), and those of the baseline are not"
    ours, start = mean(values), mean(baseline)
    best = start if level is None or objective.better(start, level) else level
    far = abs(ours - best) / sd
    if objective.better(ours, best) and far > FAR:
        than = "the baseline" if best == start else "what it was edited on"
        return f"it is {far:.0f} standard deviations better than {than}"
    return ""
