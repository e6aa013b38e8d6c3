"""How metrics, counts and durations are written for people: one way, so that they read the same in every display."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Numbers of things, in words.


def counted(number: float, noun: str) -> str:
    """`1 run`, `2 runs`, `1200 rows`. A number that is an estimate is rounded to a whole one."""
    return f"{number:.0f} {noun}{'' if round(number) == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`: at most so many of them."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def subtracted(value: float, other: float) -> tuple[str, str, str]:
    """`0.341`, `0.3`, `+0.041`: two values and their difference, with so many digits that they subtract as printed."""
    size, gap = max(abs(value), abs(other)), abs(value - other)
    if not (math.isfinite(size) and gap):
        return number(value), number(other), f"{value - other:+.3g}"
    places = max(3 - math.floor(math.log10(size)), 2 - math.floor(math.log10(gap)), 0)  # four digits, three of the gap
    first, second = round(value, places), round(other, places)
    return f"{first:.12g}", f"{second:.12g}", f"{round(first - second, places):+.12g}"


def number(value: float) -> str:
    """Four significant digits: `0.1916`, `1.25e-05`."""
    return f"{value:.4g}"


def span(seconds: float | None) -> str:
    """A duration as `6h12m`, `2h`, `3m20s`, `12s` or `0.2s`; `-`: unknown. Only nothing is `0s`."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{max(seconds, 0.1):.1f}s".replace(".0s", "s") if 0 < seconds < 10 else f"{int(seconds)}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if minutes else f"{hours}h"
