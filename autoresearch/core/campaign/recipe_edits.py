"""Apply overrides (dotted keys) to a recipe, and compare two recipes.

`optim.lr`, `stages.0.steps` (an index into a list), also `data.train.path` where the recipe has a key literally
named `data.train`. A leading `+` (as in Hydra) adds a key that the recipe does not have.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoresearch.core.text.regex import later
from autoresearch.errors import BlueprintError

_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NOTHING = frozenset({"null", "none", "~", ""})
_INTEGER = later(r"[-+]?\d+\Z")
_KINDS = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a group of keys"}


class _Absent:
    """The value of a missing key; unlike None, it cannot occur in a recipe."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class RecipeChange:
    """One key that differs. `old` or `new` is ABSENT where only the other recipe has the key."""

    key: str  # dotted
    old: object
    new: object

    def __str__(self) -> str:
        return f"{self.key}: {_shown(self.old)} -> {_shown(self.new)}"


def apply_overrides(recipe: Mapping[str, object], overrides: Mapping[str, object]) -> dict[str, object]:
    """A copy of the recipe with each key set; a mapping given for a mapping is merged into it.

    A value is converted to the type of the one it replaces: "3" becomes 3, "true" becomes True, 8.0 becomes 8 if
    the old value is an integer, "null" becomes None. Raises BlueprintError: `unknown_key`, with the nearest keys,
    unless a leading `+` permits a new one; `bad_value` if the value cannot be converted.
    """
    changed: dict[str, object] = copy.deepcopy(dict(recipe))
    for key, value in overrides.items():
        _set(changed, key.removeprefix("+"), value, recipe, key.startswith("+"))
    return changed


def diff_recipes(a: Mapping[str, object], b: Mapping[str, object]) -> tuple[RecipeChange, ...]:
    """Every key whose value differs, in the order of `a`, followed by the keys that only `b` has.

    Lists of equal length are compared item by item, others as a whole; 1 equals 1.0, and NaN equals NaN.
    """
    return tuple(_differences(a, b, ""))


def _set(top: dict[str, object], key: str, value: object, recipe: Mapping[str, object], allow_new: bool) -> None:
    parts: Sequence[str] = key.split(".")
    if not all(parts):
        raise BlueprintError(f"{key!r} is no key: a part of it is empty", code="unknown_key")
    holder: Any = top
    while True:
        name, parts = _step(holder, parts)
        at = _key(holder, name)
        known = at is not None
        if not known and not (allow_new and isinstance(holder, dict)):
            raise _unknown(key, recipe, holder, name)
        at = at if known else name
        if not parts:
            break
        if not known:
            holder[at] = {}
        holder = holder[at]
    before = holder[at] if known else ABSENT
    if isinstance(before, dict) and isinstance(value, Mapping):
        for inner, item in value.items():
            _set(top, f"{key}.{inner}", item, recipe, allow_new)
    else:
        holder[at] = _fitted(key, before, value)


def _step(holder: object, parts: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The next path component and the remaining ones; the longest key of the recipe that contains dots goes first."""
    for length in range(len(parts) if isinstance(holder, dict) else 0, 1, -1):
        if _key(holder, name := ".".join(parts[:length])) is not None:
            return name, parts[length:]
    return parts[0], parts[1:]


def _key(holder: object, name: str) -> Any:
    """The mapping key (YAML allows numbers as keys) or list index that a name stands for; None if there is none."""
    if isinstance(holder, dict):
        return name if name in holder else next((key for key in holder if key is not None and str(key) == name), None)
    if isinstance(holder, list) and _INTEGER.match(name) and -len(holder) <= int(name) < len(holder):
        return int(name)
    return None


def _fitted(key: str, before: object, value: object) -> object:
    """The value converted to the type of the old one."""
    value = copy.deepcopy(value)
    if before is ABSENT or before is None:
        return _read(value) if isinstance(value, str) else value
    if isinstance(before, str) or value is None:
        return value
    if isinstance(value, str) and value.strip().lower() in _NOTHING:
        return None
    fitted = _as_kind(before, value)
    if fitted is ABSENT:
        wanted = _KINDS.get(type(before), type(before).__name__)
        raise BlueprintError(
            f"{key} wants {wanted}, as {_shown(before)}; it was given {_shown(value)}",
            hint="give the kind of value that the recipe has there",
            code="bad_value",
        )
    return fitted


def _as_kind(before: object, value: object) -> object:
    """The value converted to the type of `before`; ABSENT if that is impossible."""
    if isinstance(before, bool):
        return value if isinstance(value, bool) else _TRUTH.get(str(value).strip().lower(), ABSENT)
    if isinstance(before, int | float):
        number = _read(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            return ABSENT
        if isinstance(before, float):
            return float(number)
        return int(number) if isinstance(number, float) and number.is_integer() else number
    if isinstance(before, list):
        return list(value) if isinstance(value, list | tuple) else ABSENT
    if isinstance(before, dict):
        return ABSENT
    return value  # for example a date


def _read(text: str) -> object:
    """Parse a text without an expected type: a number, a boolean, null, or the text itself."""
    word = text.strip().lower()
    if word in _TRUTH:
        return _TRUTH[word]
    if word in _NOTHING:
        return None if word else text
    if _INTEGER.match(word):
        return int(word)
    try:
        return float(word) if "_" not in word else text
    except ValueError:
        return text


def _unknown(key: str, recipe: Mapping[str, object], holder: object, name: str) -> BlueprintError:
    known = list(dict.fromkeys(_keys(recipe, "")))
    last = key.rpartition(".")[2]
    near = [k for k in known if k.rpartition(".")[2] == last][:3]
    import difflib

    near += [k for k in difflib.get_close_matches(key, known, n=3) if k not in near]
    if isinstance(holder, list):
        hint = f"the list has {len(holder)} items, counted from 0"
    elif near:
        hint = f"did you mean {' or '.join(near[:3])}?"
    else:
        hint = f"the recipe has {', '.join(str(k) for k in list(recipe)[:8]) or 'no keys'}"
    return BlueprintError(
        f"the recipe has no key {key}" + (f" ({name!r} is not there)" if name != key else ""),
        hint=hint + (f"; +{key} adds it" if not isinstance(holder, list) else ""),
        code="unknown_key",
    )


def _keys(value: object, prefix: str) -> Iterator[str]:
    """Every dotted key, those of inner mappings included."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield f"{prefix}{key}"
        yield from _keys(item, f"{prefix}{key}.")


def _differences(a: object, b: object, key: str) -> Iterator[RecipeChange]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for name in dict.fromkeys((*a, *b)):
            yield from _differences(a.get(name, ABSENT), b.get(name, ABSENT), f"{key}.{name}" if key else str(name))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for number, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from _differences(one, other, f"{key}.{number}")
    elif not _same(a, b):
        yield RecipeChange(key, a, b)


def _same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _shown(value: object) -> str:
    """A value on one line, at most 80 characters."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
