"""One line at the bottom of a terminal that is drawn again and again, and what it is made of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autoresearch.commands.layout import for_people
from autoresearch.runner.masking import clean_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

Part = tuple[str, str]  # of a line: text, style
BAR = 20  # cells
BARS = "▁▂▃▄▅▆▇█"


class LiveLine:
    """A line at the bottom of the terminal that is drawn again and again, and lines that stay above it."""

    def __init__(self, console: Console, display: Live) -> None:
        self._console, self._display = console, display

    def show(self, parts: Sequence[Part]) -> None:
        """Draw the line: parts (text, style), as many as fit; a part is never cut but for the last one shown."""
        from rich.text import Text

        line, room = Text(no_wrap=True, overflow="ellipsis"), self._console.width - 1
        for text, style in parts:
            if line.cell_len + len(text) + 2 > room and line.plain:
                break
            line.append("  " if line.plain else "").append(clean_text(text), style=style)
        self._display.update(line)

    def say(self, text: str) -> None:
        """A line that stays."""
        from rich.text import Text

        laid_out = for_people(clean_text(text), self._console.file)
        self._console.print(Text.from_ansi(laid_out), highlight=False, soft_wrap=True)


@contextlib.contextmanager
def live_line() -> Iterator[LiveLine]:
    """A live line on stderr, gone at the end. Colours go with NO_COLOR or a terminal that has none."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    with Live(console=console, refresh_per_second=4, transient=True) as display:
        yield LiveLine(console, display)


@contextlib.contextmanager
def live_line_if(drawn: bool) -> Iterator[LiveLine | None]:
    """The same, or None."""
    if not drawn:
        yield None
        return
    with live_line() as display:
        yield display


def progress_bar(share: float, width: int = BAR) -> str:
    """`━━━━━╺───`: the done share of a whole, from 0 to 1."""
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
