"""Reads a frozen dataclass back from the JSON object that `asdict` made of it: the class is the only declaration.

Whoever writes such a file may be older or newer than its reader, so an unknown key is ignored, and a missing one has
its default. Only what the class says of a value is converted: lists to tuples, words to enums, objects to dataclasses.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Convert = Callable[[Any], Any]
_KNOWN: dict[Any, dict[str, Convert | None]] = {}


def from_record(cls: type[T], record: Mapping[str, Any]) -> T:
    """The value that a JSON object holds. Raises TypeError or ValueError where it cannot be one."""
    if not isinstance(record, Mapping):
        raise TypeError(f"{record!r} is no object of {cls.__name__}")
    values = {}
    for name, convert in _converters(cls).items():
        if name in record:
            values[name] = record[name] if convert is None else convert(record[name])
    try:
        return cls(**values)
    except TypeError:
        needed = (f.name for f in fields(cast("Any", cls)) if f.default is MISSING and f.default_factory is MISSING)
        if missing := next((name for name in needed if name not in values), ""):
            raise ValueError(f"it has no `{missing}`") from None
        raise


def as_recorded(value: object) -> Any:
    """A field's value as a record holds it and reads it back: with lists for tuples, and words for enums."""
    known = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    return json.loads(json.dumps(known, default=str))


def _converters(cls: Any) -> dict[str, Convert | None]:
    """Field -> how its value is converted; None where the JSON value is the value."""
    if cls not in _KNOWN:
        hints = get_type_hints(cls)
        _KNOWN[cls] = {field.name: _converter(hints[field.name]) for field in fields(cls)}
    return _KNOWN[cls]


def _converter(kind: Any) -> Convert | None:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _tuple_of(parts)
    if origin in (Union, types.UnionType):
        return _one_of(parts)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if isinstance(kind, type) and is_dataclass(kind):
        return lambda value: from_record(kind, value)
    return None


def _tuple_of(parts: tuple[Any, ...]) -> Convert:
    inner = _converter(parts[0])

    def convert(values: Any) -> Any:
        if not isinstance(values, list | tuple):
            return () if values is None else values
        return tuple(values) if inner is None else tuple(map(inner, values))

    return convert


def _one_of(parts: tuple[Any, ...]) -> Convert | None:
    """`X | None`; and `SomeEnum | str`, a word that need not be one of the enum's."""
    known = next((inner for part in parts if (inner := _converter(part)) is not None), None)
    if known is None:
        return None

    def convert(value: Any) -> Any:
        if value is None:
            return None
        try:
            return known(value)
        except ValueError:
            if str in parts:
                return value
            raise

    return convert
