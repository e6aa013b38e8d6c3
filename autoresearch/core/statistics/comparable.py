"""Comparability: which numbers must not be compared, as they are of two metrics, or of runs that could learn nothing.

No signal: if all answers get the same reward, the advantages of GRPO and related methods are zero, and so is the
gradient: the metric of such a run is evidence neither for nor against an idea. Causes: a data set that is too hard or
too easy, a verifier that always returns the same, a group size of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autoresearch.core.metrics.objective import ExpressionError, same_metric
from autoresearch.core.metrics.signal import GRADIENT_KEYS, REWARD_KEYS, Reading

NO_SIGNAL = "no_signal"
LEAST_REWARDS = 5  # steps: the mean rewards of a few small groups may agree by chance
LEAST_GRADIENTS = 3


def why_not(first: str, second: str) -> str:
    """Why values of these metrics must not be compared; "" if they may be."""
    try:
        same = first == second or same_metric(first, second)
    except ExpressionError:
        same = False
    return "" if same else f"{first or 'no metric'} and {second or 'no metric'} are different metrics"


def no_signal(steps: Sequence[Reading]) -> str:
    """Why nothing could be learnt in these training steps; "" if something could, or if there are too few steps.

    steps: of one source, in order. Rewards printed with few digits are compared as printed.
    """
    for key in GRADIENT_KEYS:
        norms = _finite(steps, key)
        if len(norms) >= LEAST_GRADIENTS and not any(norms):
            return f"{key} is 0 in all {len(norms)} steps: nothing could be learnt"
    for key in REWARD_KEYS:
        rewards = _finite(steps, key)
        if len(rewards) >= LEAST_REWARDS:
            same = all(reward == rewards[0] for reward in rewards)
            return f"{key} is {rewards[0]:g} in all {len(rewards)} steps: nothing could be learnt" if same else ""
    return ""


def _finite(steps: Sequence[Reading], key: str) -> list[float]:
    return [value for reading in steps if math.isfinite(value := reading.metrics.get(key, math.nan))]
