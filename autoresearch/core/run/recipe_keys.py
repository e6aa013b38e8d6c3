"""Look up keys in a recipe, where they may be nested (YAML) or dotted (hydra overrides)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoresearch.core.run.trainer import Recipe


def look_up(recipe: Recipe, dotted: str) -> object:
    """The value at `a.b.c`, nested or dotted; None if it is missing."""
    if dotted in recipe:
        return recipe[dotted]
    here: object = recipe
    for key in dotted.split("."):
        if not isinstance(here, Mapping) or key not in here:
            return None
        here = here[key]
    return here


def text_of(recipe: Recipe, dotted: str) -> str:
    """The value as stripped text; "" if it is missing or not text."""
    value = look_up(recipe, dotted)
    return value.strip() if isinstance(value, str) else ""


def whole_number(recipe: Recipe, dotted: str) -> int | None:
    """The value if it is an integer, else None."""
    value = look_up(recipe, dotted)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def true_at(recipe: Recipe, dotted: str) -> bool:
    """Whether the value is True, or one of the texts "true", "yes" and "1", as in flags and environment variables."""
    value = look_up(recipe, dotted)
    return value is True or (isinstance(value, str) and value.strip().lower() in ("true", "yes", "1"))


def real_at(recipe: Recipe, dotted: str) -> float | None:
    """The value if it is a finite number, or text that YAML 1.1 fails to parse as one (`1e-6`); else None."""
    value = look_up(recipe, dotted)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def around(recipe: Recipe, *keys: str) -> dict[str, object]:
    """A log-scale search space from a third to three times the value of each key that holds a positive number."""
    values = {key: real_at(recipe, key) for key in keys}
    return {key: {"low": v / 3, "high": v * 3, "log": True} for key, v in values.items() if v is not None and v > 0}


def product(recipe: Recipe, *keys: tuple[str, int]) -> int | None:
    """The product of these integer keys, each with its default; None if one is not an integer or negative."""
    found = 1
    for key, usual in keys:
        number = usual if look_up(recipe, key) is None else whole_number(recipe, key)
        if number is None or number < 0:
            return None
        found *= number
    return found
