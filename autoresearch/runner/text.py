"""Lines of a log as a record may show them, and the numbers in them."""

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
    """A line without terminal escape sequences; Ray's prefix is so common that it has a fast way."""
    if b"\x1b" not in line:
        return line
    line = line.replace(b"\x1b[36m", b"", 1).replace(b"\x1b[0m", b"", 1)
    return _ANSI.sub(b"", line) if b"\x1b" in line else line


def bare(line: bytes) -> bytes:
    """A line as a pattern sees it: without escapes, and without torchrun's `[rank0]: `."""
    line = without_escapes(line.lstrip(b"\0"))
    found = _RANK.match(line)
    return line[found.end() :] if found else line


def plain(text: bytes | str, limit: int = 300) -> str:
    """A text as a record may hold it: one line, no escape sequence, no control character, no secret, bounded."""
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    decoded = without_escapes(raw[: 8 * limit]).decode("utf-8", "replace")
    words = "".join(c if c.isprintable() else " " for c in decoded).split()
    return mask_text(" ".join(words))[:limit]


def without_html(text: str) -> str:
    """Text in a page of markdown: nothing in it becomes an element or a comment of HTML."""
    return _TAG.sub("&lt;", text)


def number(text: bytes) -> float | None:
    """The first number in a text such as b"np.float64(3e-4)" or b"1,000"; None for a part of one, as in b"12,34"."""
    text = text.split(b"(", 1)[-1]
    found = _NUMBER.search(text)
    if found is None or _GOES_ON.match(text, found.end()):
        return None
    return float(found[0].replace(b",", b""))
