"""Student's t distribution (CDF and quantile), which the standard library lacks.

R. A. Fisher's exact test of two shares, one-sided.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_MOST_TERMS = 10_000


def t_cdf(t: float, df: float) -> float:
    """P(T <= t) with `df` > 0 degrees of freedom; t may be infinite."""
    if not df > 0:
        raise ValueError(f"degrees of freedom are above 0, not {df}")
    if math.isinf(t):
        return 1.0 if t > 0 else 0.0
    tail = 0.5 * _incomplete_beta(df / 2, 0.5, df / (df + t * t))
    return 1 - tail if t > 0 else tail


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The t with P(T <= t) = p, 0 < p < 1."""
    if not 0 < p < 1:
        raise ValueError(f"a probability is between 0 and 1, not {p}")
    if p < 0.5:
        return -t_quantile(1 - p, df)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < p and high < 1e150:
        low, high = high, high * 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if t_cdf(middle, df) < p else (low, middle)
    return high if p > 0.5 else 0.0


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), 0 <= x <= 1."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    front = math.exp(log_front)
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast
        return front * _beta_fraction(a, b, x) / a
    return 1 - front * _beta_fraction(b, a, 1 - x) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def share_p(ours: tuple[int, int], theirs: tuple[int, int]) -> float:
    """The probability of so many failures, or more, on our side if both sides fail alike. Each: (failures, runs)."""
    (failed, runs), (others_failed, others) = ours, theirs
    total, every = runs + others, failed + others_failed
    ways = sum(math.comb(every, k) * math.comb(total - every, runs - k) for k in range(failed, min(every, runs) + 1))
    return ways / math.comb(total, runs)
