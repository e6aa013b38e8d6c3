"""The end of a run's log on a screen: followed as it grows, scrolled, searched."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from autoresearch.commands.overview_table import cut
from autoresearch.commands.terminal import Line

KEYS = "q back  j k page g G scroll  F follow  w wrap  / find  n next"
LINES = 5000  # of the last 256 KiB


class LogView:
    """`read`: the last lines of the log as they may be shown."""

    def __init__(self, title: str, path: Path, read: Callable[[Path, int], list[str]]) -> None:
        self.title, self.path, self._read = title, path, read
        self.follows = True
        self.wraps = False
        self.message = ""
        self._found = ""
        self._top = 0  # of what is shown, counted in lines as they are on the screen
        self._stamp: tuple[int, int] = (-1, -1)
        self._lines: list[str] = []
        self._folded: tuple[int, list[str]] = (0, [])
        self._height = 1

    def refresh(self) -> None:
        """Read it again if it changed."""
        try:
            found = os.stat(self.path)  # noqa: PTH116
            stamp = (found.st_size, found.st_mtime_ns)
        except OSError:
            stamp = (-1, -1)
        if stamp != self._stamp or not self._lines:
            self._stamp, self._lines, self._folded = stamp, self._read(self.path, LINES), (0, [])

    def key(self, key: str) -> bool:
        """Take a key; False: back to the runs."""
        page = max(1, self._height - 1)
        moves = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -page, "page down": page, " ": page, "b": -page}
        self.message = ""
        if key in ("q", "escape", "left", "h"):
            return False
        if key in moves:
            self._top = max(0, min(self._last, self._top + moves[key]))
            self.follows = self._top >= self._last
        elif key in ("g", "home"):
            self._top, self.follows = 0, False
        elif key in ("G", "end", "F"):
            self.follows = True
        elif key == "w":
            self.wraps, self._folded = not self.wraps, (0, [])
        elif key == "n":
            self.find(self._found)
        return True

    def find(self, text: str) -> None:
        """Go to the next line below with this text, from the top again after the last."""
        self._found = text
        lines = self._folded[1]
        below = [*range(self._top + 1, len(lines)), *range(min(self._top + 1, len(lines)))]
        hit = next((n for n in below if text.lower() in lines[n].lower()), None) if text else None
        if hit is None:
            self.message = f"{text!r} is not in these lines"
        else:
            self._top, self.follows = hit, False

    def lines(self, width: int, height: int) -> list[Line]:
        """What is to be drawn on a screen of that size, but for its last line."""
        self.refresh()
        shown = self._fold(width)
        self._height = max(1, height - 1)
        if self.follows or self._top > self._last:
            self._top = self._last
        part = shown[self._top : self._top + self._height]
        where = "following" if self.follows else f"line {self._top + 1} of {len(shown)}"
        head: Line = (cut(f"{self.title}  {where}  {self.path}", width), "head")
        empty: list[Line] = [] if shown else [("nothing is printed yet", "dim")]
        return [head, *empty, *((cut(line, width), "") for line in part)]

    @property
    def _last(self) -> int:
        return max(0, len(self._folded[1]) - self._height)

    def _fold(self, width: int) -> list[str]:
        if self._folded[0] != width or not self._folded[1]:
            lines = [line.expandtabs(4) for line in self._lines]
            if self.wraps:
                from rich.cells import chop_cells

                lines = [piece for line in lines for piece in (chop_cells(line, width) or [""])]
            self._folded = width, lines
        return self._folded[1]
