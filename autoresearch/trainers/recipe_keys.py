"""Looking things up in a recipe, whose keys may be nested (YAML) or dotted (hydra overrides)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoresearch.core.run.trainer import Recipe


def look_up(recipe: Recipe, dotted: str) -> object:
    """The value at `a.b.c`, nested or flat; None if it is not there."""
    if dotted in recipe:
        return recipe[dotted]
    here: object = recipe
    for key in dotted.split("."):
        if not isinstance(here, Mapping) or key not in here:
            return None
        here = here[key]
    return here


def text_of(recipe: Recipe, dotted: str) -> str:
    """The value as text; "" if it is not there, empty, or no text."""
    value = look_up(recipe, dotted)
    return value.strip() if isinstance(value, str) else ""


def whole_number(recipe: Recipe, dotted: str) -> int | None:
    """The value if it is a whole number, else None."""
    value = look_up(recipe, dotted)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def true_at(recipe: Recipe, dotted: str) -> bool:
    """Whether the value is True, or a word for it, as flags and environment variables have it."""
    value = look_up(recipe, dotted)
    return value is True or (isinstance(value, str) and value.strip().lower() in ("true", "yes", "1"))


def real_at(recipe: Recipe, dotted: str) -> float | None:
    """The value if it is a finite number, or a text that YAML 1.1 failed to read as one (`1e-6`)."""
    value = look_up(recipe, dotted)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def around(recipe: Recipe, *keys: str) -> dict[str, object]:
    """A search space of a factor of three to both sides of each of these keys, where it is a positive number."""
    values = {key: real_at(recipe, key) for key in keys}
    return {key: {"low": v / 3, "high": v * 3, "log": True} for key, v in values.items() if v is not None and v > 0}


def product(recipe: Recipe, *keys: tuple[str, int]) -> int | None:
    """The product of whole numbers, each with what stands for it where the key is missing; None if one is none."""
    found = 1
    for key, usual in keys:
        number = usual if look_up(recipe, key) is None else whole_number(recipe, key)
        if number is None or number < 0:
            return None
        found *= number
    return found
