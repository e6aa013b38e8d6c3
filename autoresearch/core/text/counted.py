"""Numbers of things, in words."""

from __future__ import annotations


def counted(number: float, noun: str) -> str:
    """`1 run`, `2 runs`, `1200 rows`. A number that is an estimate is rounded to a whole one."""
    return f"{number:.0f} {noun}{'' if round(number) == 1 else 's'}"
