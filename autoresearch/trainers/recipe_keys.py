"""Looking things up in a recipe, whose keys may be nested (YAML) or dotted (hydra overrides)."""

from __future__ import annotations

from collections.abc import Mapping

from autoresearch.core.trainer import Recipe


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
