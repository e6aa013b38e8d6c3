"""Lines and tables for a person at a terminal: no word broken, paths from the working directory, verdicts in colour.

A command line, and a path that is longer than the terminal is wide, stay in one piece, to be copied.
"""

from __future__ import annotations

import contextlib
import os
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from autoresearch.core.text.regex import later

GAP = 2  # cells between columns
WIDEST = 1 << 20  # cells: of a pipe
NARROWEST = 20  # terminals below that are written to as if they were so wide
COLOURS = {
    "32": ("keep", "kept", "confirmed", "finished", "ok", "fit"),
    "31": (
        *("crash", "crashed", "failed", "error", "lost", "launch_failed", "stalled", "max_time", "first_step_timeout"),
        *("missing", "not confirmed", "dead"),
    ),
    "33": ("warning", "pending", "screened", "unmeasured", "stopped", "paused", "unreachable"),
}
_COLOUR = {word: colour for colour, words in COLOURS.items() for word in words}
_FIELD = later(  # a word that is all of a field, or the first of it: between two spaces, colons, commas, brackets
    rf"(?:(?<=^)|(?<=[:,;] )|(?<=  )|(?<=\())({'|'.join(sorted(_COLOUR, key=len, reverse=True))})"
    r"(?=$|[:,;)]|  | \d| \()",
    re.MULTILINE,
)
_WHOLE = later(r"`[^`]+`|(?:^\w+: )?\b(?:autoresearch [a-z]|tmux (?:-|attach)).*$")
_HEAD = later(r"\s*(?:\| )?")
_LIST = later(r"\s*\S+(?: \S+){0,3} {2,}(?=\S)")
_KEPT = "\ue000"  # stands for a space where a line may not end; for private use, and as wide as one


class Whole(str):
    """A line that is there to be copied as it is: a command of a shell."""

    __slots__ = ()


def width_of(stream: IO[str]) -> int:
    """Cells of a line there: those of a terminal, else all."""
    import shutil

    return max(NARROWEST, shutil.get_terminal_size().columns) if stream.isatty() else WIDEST


def for_people(text: str, stream: IO[str]) -> str:
    """Text as it is written to this stream: paths from here; laid out and coloured where that is a terminal."""
    text = from_here(text)
    if not stream.isatty():
        return text
    text = "\n".join(wrapped(line, width_of(stream)) for line in text.split("\n"))
    return painted(text) if has_colour(stream) else text


def has_colour(stream: IO[str]) -> bool:
    """Whether colours are shown there. https://no-color.org: any value but the empty one turns them off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str) -> str:
    """Verdicts and warnings in colour, where they are a field of a line."""
    return _FIELD.sub(lambda match: f"\x1b[{_COLOUR[match[1]]}m{match[1]}\x1b[0m", text)


def from_here(text: str) -> str:
    """Paths below the working directory, as they are typed there."""
    here = ""
    with contextlib.suppress(OSError):
        here = str(Path.cwd())
    return re.sub(rf"(?<![\w./~:=-]){re.escape(here)}/(?=[\w.<])", "", text) if len(here) > 1 else text


def cell_len(text: str) -> int:
    """How many cells a text takes at a terminal."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich import cells

    return cells.cell_len(text)


def wrapped(text: str, width: int) -> str:
    """Lines that end between two words; those after the first begin below the first one's text."""
    if cell_len(text) <= width:
        return text
    head, after = _HEAD.match(text), _LIST.match(text)
    assert head is not None
    indent = " " * len(after[0]) if after and len(after[0]) <= width // 3 else head[0] + "  "
    kept = _WHOLE.sub(lambda match: match[0].replace(" ", _KEPT), text)
    lines = textwrap.fill(
        kept, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
        expand_tabs=False, replace_whitespace=False,
    )  # fmt: skip
    return lines.replace(_KEPT, " ")


def table_lines(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Rows in columns as wide as their widest cells; the last one goes on below itself where a line is longer."""
    count = max(map(len, rows))
    sizes = [max(cell_len(row[n]) for row in rows if n < len(row)) for n in range(count - 1)]
    lines = []
    for row in rows:
        *cells, last = [*row, *[""] * (count - len(row))]
        head = "".join(cell + " " * (size - cell_len(cell) + GAP) for cell, size in zip(cells, sizes, strict=True))
        first, *more = last.split("\n")
        for line in (head + first, *(" " * cell_len(head) + piece for piece in more)):
            lines += wrapped(line.rstrip(), width).split("\n")
    return lines


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a `grid`, in cells. The higher its rank, the sooner it goes where there is no room; 0 stays."""

    name: str
    rank: int = 0
    least: int = WIDEST  # narrower says nothing
    most: int = WIDEST
    right: bool = False
    middle: bool = False  # what is too long loses its middle: a run id ends in what makes it one
    words: bool = False  # what is too long loses its last word


@dataclass(frozen=True, slots=True)
class Grid:
    """A table that fits: the columns that are shown with their widths, and the lines."""

    columns: tuple[tuple[Column, int], ...]
    header: str
    rows: tuple[str, ...]

    def size(self, name: str) -> int:
        """Cells that a column has; 0 where there is no room for it, or nothing in it."""
        return next((size for column, size in self.columns if column.name == name), 0)


def grid(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Grid:
    """Rows as lines of at most so many cells: columns go in an order, what is too long is cut, nothing is folded."""
    natural: dict[Column, int] = {}
    for n, column in enumerate(columns):
        widest = max((cell_len(row[n]) for row in rows), default=0)
        if widest or column.rank <= 0:
            natural[column] = min(column.most, max(widest, cell_len(column.name)))
    sizes: dict[Column, int] = {}
    room, width = max(NARROWEST, width) + GAP, max(NARROWEST, width)
    for column in sorted(natural, key=lambda one: one.rank):
        room -= min(column.least, natural[column]) + GAP
        if room < 0 and column.rank > 0:
            break
        sizes[column] = min(column.least, natural[column])
    for column in sizes:  # those that go last grow first
        spare = width - sum(sizes.values()) - GAP * (len(sizes) - 1)
        sizes[column] += max(0, min(spare, natural[column] - sizes[column]))
    shown = [(n, column, sizes[column]) for n, column in enumerate(columns) if column in sizes]
    lines = [
        (" " * GAP).join(_cell(row[n], column, size) for n, column, size in shown).rstrip()
        for row in ([column.name for column in columns], *rows)
    ]
    return Grid(tuple((column, size) for _, column, size in shown), lines[0], tuple(lines[1:]))


def _cell(text: str, column: Column, size: int) -> str:
    while column.words and cell_len(text) > size and " " in text:
        text = text.rpartition(" ")[0]
    text = cut(text, size, middle=column.middle)
    fill = " " * (size - cell_len(text))
    return fill + text if column.right else text + fill


def cut(text: str, width: int, *, middle: bool = False) -> str:
    """At most so many cells of a text, with a mark where some of it is left out."""
    if cell_len(text) <= width:
        return text
    if width < 2:
        return text[:width] if width > 0 and text.isascii() else ""
    tail = text[-min(7, width // 2) :] if middle and text.isascii() else ""
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1 - len(tail)).rstrip() + "…" + tail
