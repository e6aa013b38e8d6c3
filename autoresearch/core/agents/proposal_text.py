"""Parses the texts of a proposal: values of a recipe, paths, and the JSON object in an agent's message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from autoresearch.core.text.regex import later

MOST_VALUE = 2000  # characters
_MOST_BRACKETS = 100
_MOST_STARTS = 400  # of JSON objects in one text
_DRIVE = later(r"[A-Za-z]:[\\/]")


def value_of(written: object) -> object:
    """A value of a recipe: a text is parsed as JSON, or taken as it is if it is not JSON; other values are unchanged.

    ValueError, one clause, for what no recipe can hold: NaN, infinities, texts that are too long or have several lines.
    """
    if not isinstance(written, str):
        return _plain(written)
    if len(written) > MOST_VALUE:
        raise ValueError(f"it has more than {MOST_VALUE} characters")
    try:
        return _plain(json.loads(written, parse_constant=_no_number))
    except json.JSONDecodeError:
        text = written.strip()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not text:
        raise ValueError('it is empty; write "" in quotes for an empty text, null for nothing')
    if not text.isprintable():
        raise ValueError("it holds characters that cannot be printed")
    if text[0] in '[{"':
        raise ValueError("it begins like JSON and is none")
    return text


def _plain(value: object) -> object:
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, RecursionError, ValueError) as error:
        raise ValueError("it is no finite JSON value") from error
    if len(text) > MOST_VALUE:
        raise ValueError(f"it has more than {MOST_VALUE} characters")
    if not isinstance(value, str) and text.count("[") + text.count("{") > _MOST_BRACKETS:
        raise ValueError("it is nested too deeply")
    return value


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no value to train with")


def is_inside(path: str) -> bool:
    """Whether a path names a file inside the repository, outside `.git` and `.autoresearch`."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or path.startswith(("/", "~")) or path.endswith("/") or "\\" in path or _DRIVE.match(path):
        return False
    return ".." not in parts and parts[0] not in (".git", ".autoresearch") and path.isprintable() and len(path) < 300


def object_with(key: str, text: str) -> tuple[Mapping[str, Any] | None, str]:
    """The JSON object in an agent's message with this key, else the first; (None, reason) if there is none.

    For agents without support for schemas, which add prose or a fence, or begin again after a broken start.
    """
    decoder, at, first, broken = json.JSONDecoder(), 0, None, ""
    for _ in range(_MOST_STARTS):
        at = text.find("{", at)
        if at < 0:
            break
        try:
            value, end = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            says = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            broken = broken or (f"its JSON breaks off or is broken: {says}" if _is_json(text, at) else "")
            at += 1
            continue
        if key in value:
            return value, ""
        first, at = first or value, end
    if broken or first is None:
        return None, broken or "there is no JSON object in the answer"
    return first, ""


def _is_json(text: str, at: int) -> bool:
    return text[at + 1 : at + 40].lstrip()[:1] == '"'


def one_line(text: str, limit: int) -> str:
    """The text as one line of at most `limit` characters, without control and formatting characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."
