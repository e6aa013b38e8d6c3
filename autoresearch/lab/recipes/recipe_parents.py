"""Merges a recipe with the parents under `defaults:`, as NeMo-RL reads it (nemo_rl/utils/config.py, 017238e5).

Only names of YAML files count: hydra's own `defaults` (verl) name groups, which cannot be resolved from outside.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping
from pathlib import PurePath

from autoresearch.errors import BlueprintError

MOST = 12  # generations
_ANEW = "_override_"  # in a section: it replaces its parent's instead of being merged with it

Read = Callable[[str], Mapping[str, object]]
"""The mapping in the file at a path."""


def parents(recipe: Mapping[str, object]) -> tuple[str, ...]:
    """The parent files as the recipe names them; () without any."""
    named = recipe.get("defaults")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    whole = all(isinstance(name, str) and name.endswith((".yaml", ".yml")) for name in names)
    return tuple(map(str, names)) if whole else ()


def inherited(recipe: Mapping[str, object], path: str, read: Read, *, most: int = MOST) -> dict[str, object]:
    """The recipe at a path merged over its parents, later ones over earlier ones; errors of `read` propagate."""
    names = parents(recipe)
    if names and not most:
        raise BlueprintError(f"{path}: its `defaults` go on for over {MOST} generations", code="bad_recipe")
    found: dict[str, object] = {}
    for name in names:
        place = os.path.normpath(PurePath(path).parent / name)
        found = _merged(found, inherited(read(place), place, read, most=most - 1))
    return _merged(found, {key: value for key, value in recipe.items() if key != "defaults" or not names})


def _merged(under: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    found = dict(under)
    for key, value in over.items():
        below = found.get(key)
        if isinstance(value, Mapping) and value.get(_ANEW):
            found[key] = {name: item for name, item in value.items() if name != _ANEW}
        else:
            both = isinstance(value, Mapping) and isinstance(below, Mapping)
            found[key] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return found
