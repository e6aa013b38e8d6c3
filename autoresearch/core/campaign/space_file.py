"""Parse a search space from the plain data of a campaign file, with one sentence per error.

    lr: {low: 1e-4, high: 1e-1, log: true}
    group_size: [4, 8, 16]
    kl_coef: {choices: [0, 0.01, 0.1]}
    temperature: {low: 0.5, high: 1.5, step: 0.25}
    total_steps: {value: 80}
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from autoresearch.core.campaign.overrides import canonical, plain
from autoresearch.core.campaign.space import Choices, Dimension, Number, Range, Space
from autoresearch.errors import UsageError

RANGE: dict[str, Any] = {
    "type": ["object", "array"],
    "minItems": 1,
    "minProperties": 1,
    "properties": {
        "low": {"type": "number", "description": "the least value"},
        "high": {"type": "number", "description": "the greatest value"},
        "log": {"type": "boolean", "description": "drawn evenly in the logarithm"},
        "step": {"type": "number", "exclusiveMinimum": 0, "description": "only low, low + step, ..."},
        "points": {"type": "integer", "minimum": 2, "description": "how many values a grid has"},
        "choices": {"type": "array", "minItems": 1, "description": "the values that it may take"},
        "value": {"description": "the one value that it has"},
    },
    "additionalProperties": False,
    "dependentRequired": {"low": ["high"], **{word: ["low"] for word in ("high", "log", "step", "points")}},
}
"""The JSON schema of what stands behind a key of a space."""
_WORDS = tuple(RANGE["properties"])
_FOREIGN = {"min": "low", "max": "high", "values": "choices", "options": "choices", "grid": "choices", "num": "points"}
_EXAMPLE = "write `key: {low: 1e-4, high: 1e-2, log: true}` or `key: [8, 16, 32]`"


def read_space(data: object, where: str = "space") -> Space:
    """Parse a space from plain YAML data; `where` names the file in messages.

    Raises UsageError `bad_space` for the first invalid key.
    """
    if not isinstance(data, Mapping):
        _refuse(where, "a space maps recipe keys to what they may be", _EXAMPLE)
    if not data:
        _refuse(where, "the space names no key", _EXAMPLE)
    return Space(tuple(_dimension(str(key), plain(spec), f"{where}: {key}") for key, spec in data.items()))


def _dimension(key: str, spec: object, where: str) -> Dimension:
    if isinstance(spec, list):
        return _choices(key, spec, where)
    if not isinstance(spec, Mapping):
        shown = canonical(spec)
        _refuse(where, f"{shown} is neither a range nor a list", f"`{{value: {shown}}}` fixes it; else {_EXAMPLE}")
    _known_words(spec, where)
    if "value" in spec or "choices" in spec:
        word = "value" if "value" in spec else "choices"
        if len(spec) > 1:
            others = ", ".join(f"`{other}`" for other in spec if other != word)
            _refuse(where, f"`{word}` stands beside {others}", f"keep `{word}` alone")
        return _choices(key, [spec["value"]] if word == "value" else spec["choices"], where)
    return _range(key, spec, where)


def _known_words(spec: Mapping[str, object], where: str) -> None:
    for word in spec:
        if word not in _WORDS:
            near = _FOREIGN.get(word) or next(iter(difflib.get_close_matches(word, _WORDS, 1)), "")
            if near:
                _refuse(where, f"`{word}` is no word of a range", f"write `{near}`")
            _refuse(where, f"`{word}` is no word of a range", "a nested recipe key is written with dots: `actor.lr`")


def _choices(key: str, values: object, where: str) -> Choices:
    if not isinstance(values, list):
        _refuse(where, "`choices` is no list", "write `choices: [a, b]`")
    if not values:
        _refuse(where, "the list of choices is empty", "name at least one value")
    seen: set[str] = set()
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            _refuse(where, f"{value} is no value to train with", "take it out")
        if canonical(value) in seen:
            _refuse(where, f"{canonical(value)} stands twice in the list", "take one of them out")
        seen.add(canonical(value))
    return Choices(key, tuple(values))


def _range(key: str, spec: Mapping[str, object], where: str) -> Range:
    for word in ("low", "high"):
        if word not in spec:
            _refuse(where, f"the range has no `{word}`", _EXAMPLE)
    low, high = _number(spec, "low", where), _number(spec, "high", where)
    step = _number(spec, "step", where) if "step" in spec else None
    log, points = spec.get("log", False), spec.get("points")
    if not isinstance(log, bool):
        _refuse(where, f"`log` is {canonical(log)}", "write `log: true` or leave it out")
    if low == high:
        _refuse(where, f"`low` and `high` are both {low}", f"`{{value: {low}}}` fixes a key")
    if low > high:
        _refuse(where, f"`low` {low} is above `high` {high}", "exchange them")
    if log and low <= 0:
        _refuse(where, f"`log` needs `low` above 0, and it is {low}", "raise `low`, or leave `log` out")
    _check_step(step, low, high, log, points is not None, where)
    if points is not None and (isinstance(points, bool) or not isinstance(points, int) or points < 2):
        _refuse(where, f"`points` is {canonical(points)}", "it is a whole number from 2 on")
    whole = all(isinstance(n, int) for n in (low, high, step) if n is not None)
    if step is not None:
        high = low + math.floor((high - low) / step + 1e-9) * step
    return Range(key, low, high, log, step, points, whole)


def _check_step(step: Number | None, low: Number, high: Number, log: bool, points: bool, where: str) -> None:
    if step is None:
        return
    if log or points:
        _refuse(where, f"`step` stands beside `{'log' if log else 'points'}`", "keep one; `points: 5` goes with `log`")
    if step <= 0 or step > high - low:
        _refuse(where, f"`step` {step} makes no second value", f"it is above 0 and at most {high - low:.6g}")


def _number(spec: Mapping[str, object], word: str, where: str) -> Number:
    value = spec[word]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        _refuse(where, f"`{word}` is {canonical(value)}, no number", "write a finite number")
    return value


def _refuse(where: str, what: str, hint: str) -> NoReturn:
    raise UsageError(f"{where}: {what}", code="bad_space", hint=hint)
