"""The screens of `queue`, its runs and one run's log: what is shown in so many columns and lines, what a key does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from autoresearch.commands.layout import cut
from autoresearch.commands.overview_table import campaign_text, counts, grid, place_text
from autoresearch.commands.terminal import Line
from autoresearch.core.campaign.stop_rules import span
from autoresearch.core.run.overview import SORTS, Overview, OverviewFilter, RunLine, mentions
from autoresearch.core.run.spec import RunState
from autoresearch.values import dataclass, replace

FEET = (  # the first that fits
    "Enter log  a attach  s stop  f filter  / find  o sort  e ended  ? help  q quit",
    "Enter log  a attach  s stop  f filter  ? help  q quit",
    "? help  q quit",
)
LOG_FOOT = "q back  j k page g G scroll  F follow  w wrap  / find  n next"
LOG_LINES = 5000  # of the last 256 KiB
HELP = (
    ("up down j k", "choose a run; page up, page down, g, G: further"),
    ("Enter l", "its log; q or Escape comes back from there"),
    ("a", "attach to its session; C-b d comes back"),
    ("s", "stop it, after a reason and a confirmation"),
    ("f", "only runs with these words in target, campaign ..."),
    ("/ n", "find the next run with a text, and the one after it"),
    ("o O", "sort by the next, the previous column"),
    ("e", "with the runs that ended lately, or without"),
    ("r", "look again now; Ctrl-L draws anew"),
    ("q Ctrl-C", "quit; the runs go on"),
)
_STYLE = {
    RunState.RUNNING: "good",
    RunState.EVALUATING: "good",
    RunState.PENDING: "waits",
    RunState.STARTING: "waits",
    RunState.STOPPING: "waits",
    RunState.UNREACHABLE: "bad",
    RunState.DEAD: "bad",
    RunState.ENDED: "dim",
}
_FAR = 1 << 30  # further than any list is long


@dataclass(slots=True)
class Prompt:
    """A line that is being typed, and what becomes of it; of a yes or no, `done` takes "y" or ""."""

    question: str
    done: Callable[[str], None]
    text: str = ""
    yes_no: bool = False

    def key(self, key: str) -> bool:
        """Take a key; whether that was the last."""
        if self.yes_no:
            self.done("y" if key in ("y", "Y") else "")
        elif key == "enter":
            self.done(self.text.strip())
        elif key == "backspace":
            self.text = self.text[:-1]
        elif key == "erase":
            self.text = ""
        elif len(key) == 1 and key.isprintable():
            self.text += key
        return self.yes_no or key in ("enter", "escape")


@dataclass(frozen=True, slots=True)
class Action:
    """What a screen cannot do by itself: log, attach, stop, refresh, redraw, ended, back, quit."""

    what: str
    line: RunLine | None = None
    text: str = ""


class Screen:
    """What both screens have: a list that is moved in, a prompt, a message, a last line."""

    feet: tuple[str, ...] = ()

    def __init__(self, message: str = "") -> None:
        self.message = message
        self.prompt: Prompt | None = None
        self.page = 10

    def key(self, key: str) -> Action | None:
        """Take a key; what is to be done about it elsewhere."""
        if (prompt := self.prompt) is None:
            self.message = ""
            return self.press(key)
        self.prompt = None
        if not prompt.key(key):
            self.prompt = prompt
        return None

    def press(self, key: str) -> Action | None:
        """A key that is no part of an answer."""
        raise NotImplementedError

    def moved(self, key: str) -> int | None:
        """By how many lines a key moves; None for another key."""
        page = self.page
        moves = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -page, "page down": page, "b": -page, " ": page}
        return (moves | {"home": -_FAR, "g": -_FAR, "end": _FAR, "G": _FAR}).get(key)

    def foot(self, width: int) -> Line:
        """The last line: what is typed, what there is to say, or the keys."""
        if self.prompt is not None:
            text = self.prompt.question + self.prompt.text
            return (text if len(text) < width else "…" + text[max(2, len(text) + 2 - width) :]) + "_", "bold"
        keys = next((text for text in self.feet if len(text) <= width), self.feet[-1])
        return cut(self.message or keys, width), "bold" if self.message else "dim"


class QueueScreen(Screen):
    """The runs. Keys go in, lines come out; it touches nothing."""

    feet = FEET

    def __init__(self, overview_filter: OverviewFilter, *, ended: int = 0, message: str = "") -> None:
        super().__init__(message)
        self.wanted, self.ended = overview_filter, ended
        self.overview: Overview | None = None
        self._action: Action | None = None
        self._help = False
        self._chosen = ""  # run id
        self._at = 0  # its place, for when it goes
        self._top = 0
        self._find = ""

    @property
    def rows(self) -> list[RunLine]:
        """The runs that are shown, in order; what ended comes last."""
        if self.overview is None:
            return []
        return [*self.wanted.of(self.overview.runs), *self.wanted.of_ended(self.overview.over)]

    @property
    def chosen(self) -> RunLine | None:
        """The run that keys are about; where it is gone, the one in its place."""
        rows = self.rows
        for at, line in enumerate(rows):
            if line.run == self._chosen:
                self._at = at
                return line
        self._choose(self._at)
        return rows[self._at] if rows else None

    # -- keys ---------------------------------------------------------------------------------------------------

    def key(self, key: str) -> Action | None:
        """Take a key; what is to be done about it elsewhere."""
        self._action = None
        return super().key(key) or self._action

    def press(self, key: str) -> Action | None:
        """A key that is no part of an answer."""
        chosen = self.chosen
        if self._help:
            self._help = False
        elif (by := self.moved(key)) is not None:
            self._choose(self._at + by)
        elif key in ("enter", "l", "right", "a", "s"):
            self._about(chosen, {"a": "attach", "s": "stop"}.get(key, "log"))
        elif key == "f":
            self.prompt = Prompt("show only: ", self._filter, " ".join(self.wanted.words))
        elif key == "/":
            self.prompt = Prompt("find: ", self._search)
        elif key == "n":
            self._search(self._find)
        elif key in ("o", "O"):
            names = list(SORTS)
            step = 1 if key == "o" else -1
            self.wanted = replace(self.wanted, sort=names[(names.index(self.wanted.sort) + step) % len(names)])
        elif key in ("?", "h"):
            self._help = True
        else:
            known = {"q": "quit", "r": "refresh", "e": "ended", "redraw": "redraw"}
            return Action(known[key]) if key in known else None
        return None

    def _choose(self, at: int) -> None:
        if rows := self.rows:
            self._at = max(0, min(len(rows) - 1, at))
            self._chosen = rows[self._at].run

    def _about(self, line: RunLine | None, what: str) -> None:
        if line is None:
            self.message = "there is no run to choose"
        elif what != "stop":
            self._action = Action(what, line)
        elif not line.state.lives:
            self.message = f"{line.run} is over"
        else:
            self.prompt = Prompt(f"stop {line.run}; why? ", lambda why: self._ask_again(line, why))

    def _ask_again(self, line: RunLine, why: str) -> None:
        def agreed(answer: str) -> None:
            self.message = "" if answer else "nothing was done"
            self._action = Action("stop", line, why or "asked for at the screen") if answer else None

        question = f"stop {line.run}, {line.state.value} at {line.place}? y, or any other key for no "
        self.prompt = Prompt(question, agreed, yes_no=True)

    def _filter(self, text: str) -> None:
        self.wanted = replace(self.wanted, words=tuple(text.split()))
        self._top = 0

    def _search(self, text: str) -> None:
        self._find = text
        hits = [n for n, line in enumerate(self.rows) if text and mentions(line, text.split())]
        if not hits:
            self.message = f"no run that is shown mentions {text!r}" if text else ""
            return
        self._choose(next((n for n in hits if n > self._at), hits[0]))

    # -- drawing ------------------------------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Line]:
        """What is to be drawn: at most `height` lines of at most `width` cells."""
        if self._help:
            shown: list[Line] = [("keys", "head"), *((cut(f"{keys:11}  {what}", width), "") for keys, what in HELP)]
            return [*shown[: height - 1], ("any key comes back", "dim")][:height]
        foot = self.foot(width)
        if self.overview is None:
            return [("looking at the runs ...", "dim"), foot][:height]
        head = self._head(self.overview, width, max(1, height // 5))
        detail = self._detail(width, 3 if height >= 20 else 1 if height >= 12 else 0)
        room = height - 2  # the foot, and the table's own head
        while room - len(head) - len(detail) < 3 and len(head) > 1:
            head.pop()
        while room - len(head) - len(detail) < 3 and detail:
            detail.pop()
        table = self._table(self.overview, width, max(1, room - len(head) - len(detail)))
        blank: list[Line] = [("", "")] * (height - len(head) - len(table) - len(detail) - 1)
        return [*head, *table, *blank, *detail, foot][-height:]

    def _head(self, overview: Overview, width: int, most: int) -> list[Line]:
        shown = len(self.wanted.of(overview.runs))
        words = [time.strftime("%H:%M:%S", time.localtime(overview.now))]
        words += [f"only {' '.join(self.wanted.words)}"] if self.wanted.words else []
        words += [f"{shown} of {counts(overview.runs)}" if shown < len(overview.runs) else counts(overview.runs)]
        targets = [place for place in overview.places if place.used or place.slots or place.gpus]
        if len(targets) > most:  # then those first that somebody may have to see to
            targets.sort(key=lambda place: place.unreachable_since is None)
        places = [(place_text(p, overview.now), "bad" if p.unreachable_since is not None else "") for p in targets]
        campaigns = [(campaign_text(c), "bad" if c.trouble else "") for c in overview.campaigns]
        lines: list[Line] = [("  ".join([*words, f"by {self.wanted.sort}"]), "bold")]
        lines += [*_some(places, most), *_some(campaigns, most), *((text, "bad") for text in overview.remarks[:2])]
        return [(cut(text, width), style) for text, style in lines]

    def _table(self, overview: Overview, width: int, height: int) -> list[Line]:
        rows, chosen = self.rows, self.chosen
        if not rows:
            return [("", ""), ("no run fits the filter" if overview.runs else "no run lives", "dim")]
        self.page = max(1, height - 1)
        self._top = max(self._at - height + 1, min(self._top, self._at, max(0, len(rows) - height)))
        part = rows[self._top : self._top + height]
        whole = grid(part, overview.now, width - 1)
        header = f" {whole.header}"
        if len(part) < len(rows):
            where = f"{self._top + 1}-{self._top + len(part)} of {len(rows)}"
            header = f"{header.ljust(width - len(where) - 1)[: width - len(where) - 1]} {where}"
        lines: list[Line] = [(cut(header, width), "head")]
        for line, text in zip(part, whole.rows, strict=True):
            here = chosen is not None and line.run == chosen.run
            style = "chosen" if here else "bad" if line.trouble else _STYLE[line.state]
            lines.append(((f">{text}".ljust(width) if here else f" {text}")[:width], style))
        return lines

    def _detail(self, width: int, most: int) -> list[Line]:
        line = self.chosen
        if line is None or not most:
            return []
        gpus = f", GPU {', '.join(gpu.uuid for gpu in line.gpus)}" if line.gpus else ""
        job = f", job {line.job}" if line.job else ""
        node = f" on {line.node}" if line.node else ""
        why = line.trouble or line.reason or _awaited(line)
        metric = "" if line.metric_value is None else f", {line.metric_name} {line.metric_value:.6g}"
        texts = [
            f"{line.run}: {line.state.value}{f': {why}' if why else ''}",
            f"{line.idea}{metric}, {line.place}{node}{job}{gpus}",
            f"log {line.run_dir}/run.log",
        ]
        return [(cut(text, width), "dim") for text in texts[:most]]


def _awaited(line: RunLine) -> str:
    """What a run without a known step is waited for, and what it printed last."""
    left = span(line.left_s or 0.0)
    words = {
        "first_step": f"no first step yet: {left} left for it",
        "output": f"no step known yet: {left} of silence left",
    }
    first = words.get(line.limit, "")
    return f"{first}; newest output: {line.newest_output}" if first and line.newest_output else first


def _some(lines: Sequence[Line], most: int) -> list[Line]:
    """The first of them, and how many there are besides."""
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], (f"and {len(lines) - most + 1} more", "dim")]


class LogScreen(Screen):
    """The end of a run's log: followed as it grows, scrolled, searched. `read`: its last lines as they may be shown."""

    feet = (LOG_FOOT,)

    def __init__(self, title: str, path: Path, read: Callable[[Path, int], list[str]]) -> None:
        super().__init__()
        self.title, self.path, self._read = title, path, read
        self.follows = True
        self.wraps = False
        self._found = ""
        self._top = 0  # of what is shown, counted in lines as they are on the screen
        self._stamp: tuple[int, int] = (-1, -1)
        self._lines: list[str] = []
        self._folded: tuple[int, list[str]] = (0, [])

    def press(self, key: str) -> Action | None:
        """A key that is no part of an answer."""
        last = self._last
        if key in ("q", "escape", "left", "h"):
            return Action("back")
        if (by := self.moved(key)) is not None:
            self._top = max(0, min(last, self._top + by))
            self.follows = self._top >= last and key not in ("g", "home")
        elif key == "F":
            self.follows = True
        elif key == "w":
            self.wraps, self._folded = not self.wraps, (0, [])
        elif key == "/":
            self.prompt = Prompt("find: ", self.find)
        elif key == "n":
            self.find(self._found)
        return Action("redraw") if key == "redraw" else None

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
        """What is to be drawn on a screen of that size."""
        self._refresh()
        shown = self._fold(width)
        self.page = max(1, height - 2)
        if self.follows or self._top > self._last:
            self._top = self._last
        part = shown[self._top : self._top + self.page]
        where = "following" if self.follows else f"line {self._top + 1} of {len(shown)}"
        head: Line = (cut(f"{self.title}  {where}  {self.path}", width), "head")
        texts: list[Line] = [(cut(line, width), "") for line in part] if shown else [("nothing is printed yet", "dim")]
        return [head, *texts, self.foot(width)][-height:]

    def _refresh(self) -> None:
        """Read it again if it changed."""
        try:
            found = os.stat(self.path)  # noqa: PTH116
            stamp = (found.st_size, found.st_mtime_ns)
        except OSError:
            stamp = (-1, -1)
        if stamp != self._stamp or not self._lines:
            self._stamp, self._lines, self._folded = stamp, self._read(self.path, LOG_LINES), (0, [])

    @property
    def _last(self) -> int:
        return max(0, len(self._folded[1]) - self.page)

    def _fold(self, width: int) -> list[str]:
        if self._folded[0] != width or not self._folded[1]:
            lines = [line.expandtabs(4) for line in self._lines]
            if self.wraps:
                from rich.cells import chop_cells

                lines = [piece for line in lines for piece in (chop_cells(line, width) or [""])]
            self._folded = width, lines
        return self._folded[1]
