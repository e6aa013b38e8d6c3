"""How a metric is written for people: one way, so that a value reads the same in every display."""

from __future__ import annotations


def number(value: float) -> str:
    """Four significant digits: `0.1916`, `1.25e-05`."""
    return f"{value:.4g}"
