"""Changes of a recipe by dotted keys, as pure data."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping
from typing import Any

from autoresearch.errors import UsageError


def apply_overrides(
    recipe: Mapping[str, object], overrides: Mapping[str, object], *, new_keys: bool = False
) -> dict[str, object]:
    """A copy of the recipe with these dotted keys set.

    Raises UsageError `unknown_key` for a key that the recipe does not hold, unless `new_keys`.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(recipe))
    for dotted, value in overrides.items():
        _set(changed, dotted, copy.deepcopy(value), new_keys=new_keys, known=recipe)
    return changed


def _set(recipe: dict[str, Any], dotted: str, value: object, *, new_keys: bool, known: Mapping[str, object]) -> None:
    if dotted in recipe:
        recipe[dotted] = value
        return
    *way, last = dotted.split(".")
    here: Any = recipe
    for part in way:
        here = _step(here, part, new_keys=new_keys)
        if here is None:
            raise _unknown(dotted, known)
    if isinstance(here, list) and last.isdecimal() and int(last) < len(here):
        here[int(last)] = value
    elif isinstance(here, dict) and (last in here or new_keys):
        here[last] = value
    else:
        raise _unknown(dotted, known)


def _step(here: Any, part: str, *, new_keys: bool) -> Any:
    if isinstance(here, list):
        return here[int(part)] if part.isdecimal() and int(part) < len(here) else None
    if not isinstance(here, dict):
        return None
    if part not in here and new_keys:
        here[part] = {}
    return here.get(part)


def _unknown(dotted: str, recipe: Mapping[str, object]) -> UsageError:
    names = list(flat(recipe))
    near = difflib.get_close_matches(dotted, names, n=1) or [n for n in names if n.endswith(dotted)][:1]
    hint = f"did you mean {near[0]!r}?" if near else f"it holds {', '.join(names[:12])}"
    return UsageError(f"the recipe has no key {dotted!r}", hint=hint, code="unknown_key")


def flat(recipe: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Dotted key -> value, for every leaf."""
    found: dict[str, object] = {}
    for key, value in recipe.items():
        if isinstance(value, Mapping) and value:
            found |= flat({str(k): v for k, v in value.items()}, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def diff_recipes(old: Mapping[str, object], new: Mapping[str, object]) -> list[tuple[str, object, object]]:
    """(key, old value, new value) for every leaf that differs; None where it is not there."""
    a, b = flat(old), flat(new)
    return [(key, a.get(key), b.get(key)) for key in dict.fromkeys([*a, *b]) if a.get(key) != b.get(key)]
