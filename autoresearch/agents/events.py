"""JSON among noise: the events that an agent prints, and what stands in them.

Nothing here raises for anything that a program can print: half lines, binary, a bracket a million times.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from autoresearch.core.text.regex import later

_HEAD, _TAIL = 1 << 18, 16 << 20  # bytes that are read of a flood: its beginning (the session) and its end
_MOST_LINES = 20_000  # of each
_OBJECT_LINE = later(r"^[ \t]{0,9}(\{[^\n]*\})[ \t\r]{0,9}$", re.MULTILINE)


def events(out: bytes) -> Iterator[Mapping[str, Any]]:
    """Every line that is a JSON object; all else is skipped. Of a flood (16 MiB, 20,000 lines) the middle is, too."""
    for part in _parts(out):
        for line in _OBJECT_LINE.finditer(part.decode("utf-8", "replace")):
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(found := json.loads(line[1]), dict):
                    yield found


def _parts(out: bytes) -> tuple[bytes, ...]:
    if len(out) <= _HEAD + _TAIL and out.count(b"\n") <= _MOST_LINES:
        return (out,)
    whole_lines = out[-_TAIL:].rsplit(b"\n", _MOST_LINES)[1:]
    return out[:_HEAD], b"\n".join(whole_lines)


def inside(event: object, *keys: str) -> Mapping[str, Any]:
    """The object at that path; an empty one where there is none."""
    for key in keys:
        event = event.get(key) if isinstance(event, Mapping) else None
    return event if isinstance(event, Mapping) else {}


def listed(event: Mapping[str, Any], key: str) -> list[Any]:
    """The list under that key; an empty one where there is none."""
    found = event.get(key)
    return found if isinstance(found, list) else []


def words(value: object) -> str:
    """The text, fit to be written down (no half surrogates); "" for anything that is no text."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def wish(call: object, arguments: str) -> str:
    """A call of a tool in words: the tool, and what it was to touch, which stands under the key `arguments`."""
    given = inside(call, arguments)
    touched = next((words(given[key]) for key in ("file_path", "command", "path") if words(given.get(key))), "")
    return f"{words(inside(call).get('tool_name'))} {touched}".strip()


def count(value: object) -> int | None:
    """A count that can be one (tokens, turns, an HTTP status); None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def money(value: object) -> float | None:
    """An amount in US dollars that can be one; None for anything else."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if known else None  # type: ignore[arg-type]


def added(*counts: int | None) -> int | None:
    """Their sum; None where none is known."""
    known = [each for each in counts if each is not None]
    return sum(known) if known else None
