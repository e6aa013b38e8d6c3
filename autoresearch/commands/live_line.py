"""One line at the bottom of a terminal that is drawn again and again, and what it is made of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autoresearch.commands import output
from autoresearch.commands.layout import for_people
from autoresearch.runner.masking import clean_text

if TYPE_CHECKING:
    from rich.live import Live

    from autoresearch.runner.log_follower import LogFollower

Part = tuple[str, str]  # of a line: text, style
BAR = 20  # cells
BARS = "▁▂▃▄▅▆▇█"


class LiveLine:
    """The line, if there is a terminal that can draw it, and lines that stay above it."""

    def __init__(self, display: Live | None) -> None:
        self.display = display

    def show(self, parts: Sequence[Part]) -> None:
        """Draw the line: parts (text, style), as many as fit; a part is never cut but for the last one shown."""
        from rich.text import Text

        assert self.display is not None
        line, room = Text(no_wrap=True, overflow="ellipsis"), self.display.console.width - 1
        for text, style in parts:
            if line.cell_len + len(text) + 2 > room and line.plain:
                break
            line.append("  " if line.plain else "").append(clean_text(text), style=style)
        self.display.update(line)

    def say(self, text: str) -> None:
        """A line that stays."""

        if self.display is None:
            output.remark(text)
            return
        from rich.text import Text

        console = self.display.console
        console.print(Text.from_ansi(for_people(clean_text(text), console.file)), highlight=False, soft_wrap=True)


@contextlib.contextmanager
def live_line(*, beside: bool = True) -> Iterator[LiveLine]:
    """A live line on stderr, gone at the end; none where nobody looks. What is printed on stdout goes above it.

    `beside`: whether that is the same terminal. Colours go with NO_COLOR.
    """
    if output.typed.as_json or not output.at_terminal() or not beside:
        yield LiveLine(None)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as display:
        yield LiveLine(display)


def new_lines(follower: LogFollower) -> Iterator[str]:
    """The whole lines that a file has grown by."""
    for chunk in follower.poll():
        yield from chunk.decode("utf-8", "replace").splitlines()


def progress_bar(share: float, width: int = BAR) -> str:
    """`━━━━━───`: the done share of a whole, from 0 to 1."""
    done = round(max(0.0, min(1.0, share)) * width)
    return "━" * done + "─" * (width - done)


def sparkline(values: list[float], width: int = 32) -> str:
    """A line of bars, lowest to highest of what is shown; gaps where a value is not finite."""
    shown = values[-width:]
    finite = [v for v in shown if v == v and abs(v) != float("inf")]
    if not finite:
        return ""
    low, span = min(finite), (max(finite) - min(finite)) or 1.0
    return "".join(BARS[int((v - low) / span * (len(BARS) - 1))] if v in finite else " " for v in shown)
