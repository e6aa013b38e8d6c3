r"""One ledger line as text: tabs between cells, backslash escapes inside them, no quoting at all.

    backslash \\    tab \t    newline \n    carriage return \r    NUL \0    lone surrogate \uXXXX

A line is always one record, whatever its cells contain, so grep, awk, cut and `read_csv(sep="\t", quoting=3)` agree
about where cells begin. (csv quoting mangled 19 of 21 malicious strings: a bare CR splits its rows.)
A lone surrogate stands for a byte of a file name that is not UTF-8; the ledger itself is always UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from autoresearch.core.text.regex import later

_ESCAPED = later(r"[\\\t\n\r\0\ud800-\udfff]")
_ESCAPE = later(r"\\(?:u(d[89a-f][0-9a-f]{2})|(.))", re.DOTALL)
_LETTERS = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"}
_MEANING = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r", "0": "\0"}


def escape(text: str) -> str:
    """Escape a text as a cell without tabs and line ends; the empty string stays empty."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return _ESCAPED.sub(lambda m: _LETTERS.get(m[0]) or f"\\u{ord(m[0]):04x}", text)


def unescape(cell: str) -> str:
    """Reverse `escape`. An invalid escape (a hand edit such as `C:\\data`) stays as it is."""
    if "\\" not in cell:
        return cell
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _MEANING.get(m[2], m[0]), cell)


def join(cells: Iterable[str]) -> bytes:
    """One line from unescaped cells, with a newline, as UTF-8."""
    return "\t".join(map(escape, cells)).encode() + b"\n"


def split(line: bytes) -> list[str]:
    """The cells of one line, unescaped; the line end (also Windows') is removed, invalid UTF-8 is replaced."""
    return [unescape(cell) for cell in strip_end(line).decode("utf-8", "replace").split("\t")]


def strip_end(line: bytes) -> bytes:
    """The line without its end, Unix's or Windows'; carriage returns in cells are always escaped."""
    return line.removesuffix(b"\n").removesuffix(b"\r")
