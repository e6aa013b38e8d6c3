"""R. A. Fisher's exact test of two shares, one-sided."""

from __future__ import annotations

import math


def share_p(ours: tuple[int, int], theirs: tuple[int, int]) -> float:
    """The probability of so many failures, or more, on our side if both sides fail alike. Each: (failures, runs)."""
    (failed, runs), (others_failed, others) = ours, theirs
    total, every = runs + others, failed + others_failed
    ways = sum(math.comb(every, k) * math.comb(total - every, runs - k) for k in range(failed, min(every, runs) + 1))
    return ways / math.comb(total, runs)
