"""KEY=VALUE words of a command line (`--set`), read as the YAML file would be that has these keys."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from autoresearch.errors import BlueprintError, UsageError
from autoresearch.lab.yaml_files import parse_any


class ValueType(StrEnum):
    """What a key takes, in the words of `config schema`."""

    COUNT = "whole number"
    AMOUNT = "number above 0"
    SHARE = "number from 0 to 1"
    DURATION = "duration"
    DEADLINE = "duration, or date and time"
    SWITCH = "true or false"
    CHOICE = "one of"
    TEXT = "text"
    TEXTS = "text or list of texts"
    COMMAND = "command, or list of words"
    SPACE = "mapping, or its file"
    TARGETS = "targets of runs"
    QUEUE = "path or list of ideas"
    ANY = "text, number, list or mapping"


# Values of these types are texts: `--set` takes them as they are typed, and not as YAML would read them.
_TEXTS = (ValueType.TEXT, ValueType.CHOICE, ValueType.TEXTS, ValueType.COMMAND)
_LISTS = (ValueType.TEXTS, ValueType.COMMAND, ValueType.QUEUE, ValueType.ANY)
_MAPPINGS = (ValueType.SPACE, ValueType.TARGETS)


def parse_pairs(pairs: Iterable[str], types: Mapping[str, ValueType], *, option: str = "--set") -> dict[str, Any]:
    """The values of KEY=VALUE words, read as a YAML file would have them; None for `null`: the default.

    Numbers, truth values, lists and mappings are YAML's; a text needs no quotes. Raises UsageError that names the
    nearest key for one that is unknown, and for a word that is no pair, says nothing or stands twice.
    """
    found: dict[str, Any] = {}
    start = f"{option} " if option else ""
    for pair in pairs:
        name, sign, text = pair.partition("=")
        name, text = name.strip().replace("-", "_"), text.strip()
        if not sign or not name:
            raise UsageError(f"{start}{pair!r} is no KEY=VALUE", hint=f"such as {start}{next(iter(types))}=VALUE")
        if name not in types:
            raise unknown_key(f"{start or ''}{pair!r}".strip(), name, types)
        if name in found:
            raise UsageError(f"{start}{name} stands twice", hint=f"a list is one value: {start}{name}='[A, B]'")
        if not text:
            raise UsageError(f"{start}{name}= has no value", hint=f"{start}{name}=null is its default")
        found[name] = _value(types[name], text, f"{start}{name}")
    return found


def unknown_key(source: str, name: str, keys: Iterable[str]) -> UsageError:
    """The error for a key that nobody knows; its hint is the nearest key, else all of them."""
    near = difflib.get_close_matches(name, keys, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(keys))}"
    return UsageError(f"{source}: unknown key {name!r}", hint=hint, code="bad_campaign_file")


def _value(value_type: ValueType, text: str, source: str) -> Any:
    if text in ("null", "~"):
        return None
    begins = {"[": _LISTS, "{": (*_MAPPINGS, ValueType.ANY)}
    flow = text[0] in "\"'" or value_type in begins.get(text[0], ())
    if value_type in _TEXTS and not flow:
        return text
    try:
        value = parse_any(text.encode(), source)
    except BlueprintError as bad:
        if not flow:
            return text
        raise UsageError(bad.message, hint="quote the value for the shell: --set 'guard=[A, B]'") from None
    keep = flow or not isinstance(value, str | dict | list) or (isinstance(value, dict) and value_type in _MAPPINGS)
    return value if keep else text
