"""Values: numbers and truths as texts and mappings hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoresearch.runner.metric_lines import value_of

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI]nf(?:inity)?)"
"""A number in a trainer's output; `[\\d.]+` would read 1.5e-05 as 1.5."""

_YES, _NO = frozenset({"true", "yes", "on", "y", "1"}), frozenset({"false", "no", "off", "n", "0"})


def truth(value: object) -> bool | None:
    """Parse a boolean, or a word for one as in YAML 1.1 (yes, on, y, 1 ...); None for anything else."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in _YES else False if word in _NO else None


def numbers(mapping: Mapping[str, object], *, strings: bool = False) -> dict[str, float]:
    """The numeric entries of a mapping; None becomes NaN, as in verl's file logger and pandas.

    `strings`: numbers in quotes count too (transformers 5 prints them so). Booleans are never numbers.
    """
    floats: dict[str, float] = {}
    for key, value in mapping.items():
        if type(value) is float:  # nearly all are
            floats[key] = value
        elif value is None:
            floats[key] = math.nan
        elif isinstance(value, str):
            read = value_of(value) if strings else None
            if read is not None:
                floats[key] = read
        elif isinstance(value, int | float) and not isinstance(value, bool):
            floats[key] = _as_float(value)
    return floats


def _as_float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond 1e308
        return math.inf if value > 0 else -math.inf
