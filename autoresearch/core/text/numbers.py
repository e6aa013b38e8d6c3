"""How a metric is written for people: one way, so that a value reads the same in every display."""

from __future__ import annotations

# Numbers of things, in words.

def counted(number: float, noun: str) -> str:
    """`1 run`, `2 runs`, `1200 rows`. A number that is an estimate is rounded to a whole one."""
    return f"{number:.0f} {noun}{'' if round(number) == 1 else 's'}"


def number(value: float) -> str:
    """Four significant digits: `0.1916`, `1.25e-05`."""
    return f"{value:.4g}"
