"""How numbers, stamps and foreign texts are written in a campaign's documents.

Sentences, slugs, log lines and diffs come from people, agents and trainers: in a document they are data. They
are put on one line, cut, freed of control characters, and kept from being read as markdown or HTML.
"""

from __future__ import annotations

import time

from autoresearch.core.text import numbers
from autoresearch.core.text.regex import later
from autoresearch.runner.masking import mask_text

UNKNOWN = "–"
_ESCAPE = later(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_CONTROL = later(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MARKDOWN = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;", ">": "&gt;", "`": "'", "[": "\\[", "]": "\\]"})


def plain(text: str, limit: int = 200) -> str:
    """One line of text for people and agents: no control characters, no escape sequences, cut at `limit`."""
    line = " ".join(_CONTROL.sub(" ", _ESCAPE.sub("", text)).split())
    return line if len(line) <= limit else line[: max(limit - 1, 0)] + "…"


def cell(text: str, limit: int = 200) -> str:
    """The same, where it must not become markdown: no table cell, link, image, code or HTML comes of it."""
    return plain(text, limit).translate(_MARKDOWN)


def code(text: str, limit: int = 300) -> str:
    """A name or a path between backticks."""
    return f"`{plain(text, limit).replace('`', chr(39)).replace('|', chr(92) + '|')}`" if text else UNKNOWN


def block(text: str, most_lines: int, most_characters: int = 40_000) -> str:
    """Lines of a foreign text, secrets masked, at most so many; a last line says how many were left out."""
    lines = [_CONTROL.sub("�", _ESCAPE.sub("", line))[:400] for line in mask_text(text).split("\n")]
    shown: list[str] = []
    size = 0
    for line in lines[:most_lines]:
        size += len(line) + 1
        if size > most_characters:
            break
        shown.append(line)
    left = len(lines) - len(shown)
    return "\n".join([*shown, f"… {left} more lines"] if left else shown)


def number(value: float | None) -> str:
    """A metric, in `core.text.numbers`' way."""
    return UNKNOWN if value is None else numbers.number(value)


def signed(value: float | None) -> str:
    """A difference."""
    return UNKNOWN if value is None else f"{value:+.3g}".replace("-", "−")


def stamp(wall: float | None) -> str:
    """`2026-11-21 10:00:00Z`; seconds since the epoch."""
    if not wall:
        return UNKNOWN
    try:
        return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(wall))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def minutes(value: float | None) -> str:
    """A duration that is given in minutes: `3m20s`."""
    return UNKNOWN if value is None else numbers.span(60 * value)
