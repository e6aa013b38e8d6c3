"""Cleans log lines for matching and for records, and parses numbers in them."""

from __future__ import annotations

import re

from .masking import mask_text

_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_RANK = re.compile(rb"[ \t]{0,8}\[(?:rank|default)\d{1,6}\]: ?")
_NUMBER = re.compile(
    rb"[-+]?(?:nan|inf(?:inity)?|[1-9]\d{0,2}(?:,\d{3})+(?!\d)(?:\.\d*)?"
    rb"|\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)",
    re.I,
)
_GOES_ON = re.compile(rb",\d")


def without_escapes(line: bytes) -> bytes:
    """A line without terminal escape sequences; there is a fast path for Ray's common prefix."""
    if b"\x1b" not in line:
        return line
    line = line.replace(b"\x1b[36m", b"", 1).replace(b"\x1b[0m", b"", 1)
    return _ANSI.sub(b"", line) if b"\x1b" in line else line


def bare(line: bytes) -> bytes:
    """A line as patterns see it: without leading NULs, escape sequences, and torchrun's `[rank0]: `."""
    line = without_escapes(line.lstrip(b"\0"))
    found = _RANK.match(line)
    return line[found.end() :] if found else line


def plain(text: bytes | str, limit: int = 300) -> str:
    """A text fit for records: one line of at most `limit` characters, without escapes, control characters, secrets."""
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    decoded = without_escapes(raw[: 8 * limit]).decode("utf-8", "replace")
    words = "".join(c if c.isprintable() else " " for c in decoded).split()
    return mask_text(" ".join(words))[:limit]


def without_html(text: str) -> str:
    """Escape text for markdown pages, so that nothing in it becomes an HTML element or comment."""
    return _TAG.sub("&lt;", text)


def number(text: bytes) -> float | None:
    """The first number in a text such as b"np.float64(3e-4)" or b"1,000"; None if it is ambiguous, as in b"12,34"."""
    text = text.split(b"(", 1)[-1]
    found = _NUMBER.search(text)
    if found is None or _GOES_ON.match(text, found.end()):
        return None
    return float(found[0].replace(b",", b""))
