"""How metrics, counts and durations are written for people: one way, so that they read the same in every display."""

from __future__ import annotations

# Numbers of things, in words.

def counted(number: float, noun: str) -> str:
    """`1 run`, `2 runs`, `1200 rows`. A number that is an estimate is rounded to a whole one."""
    return f"{number:.0f} {noun}{'' if round(number) == 1 else 's'}"


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
