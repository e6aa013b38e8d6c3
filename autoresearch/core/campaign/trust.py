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
    objective: Objective, values: Sequence[float], baseline: Sequence[float], flags: Iterable[str]
) -> str:
    """What makes the result doubtful, as a clause; "" if nothing does. `flags`: of its edits and its rows."""
    told = list(flags)
    for flag in told:
        if SETS_OBJECTIVE in flag or flag.startswith(FLAT):
            return flag
    sd = noise_of([baseline]).sd
    if not sd or not values:
        return ""
    if len(values) > 1 and min(values) == max(values):
        return f"all its {len(values)} runs are equal ({values[0]:.4g}), and those of the baseline are not"
    gain = mean(values) - mean(baseline)
    far = abs(gain) / sd
    if objective.better(mean(values), mean(baseline)) and far > FAR:
        return f"it is {far:.0f} standard deviations better than the baseline"
    return ""
