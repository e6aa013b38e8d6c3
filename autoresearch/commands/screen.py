"""The screen of `queue`: what is shown of an overview in so many columns and lines, and what a key does to that."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autoresearch.commands.overview_table import campaign_text, counts, cut, grid, place_text
from autoresearch.commands.terminal import Line
from autoresearch.core.campaign.stop_rules import span
from autoresearch.core.run.overview import SORTS, Overview, OverviewFilter, RunLine, mentions
from autoresearch.core.run.spec import RunState

FEET = (  # the first that fits
    "Enter log  a attach  s stop  f filter  / find  o sort  e ended  ? help  q quit",
    "Enter log  a attach  s stop  f filter  ? help  q quit",
    "? help  q quit",
)
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


@dataclass(slots=True)
class Prompt:
    """A line that is being typed, and what becomes of it."""

    question: str
    done: Callable[[str], None]
    text: str = ""
    yes_no: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """What the screen cannot do by itself: log, attach, stop, refresh, redraw, quit."""

    what: str
    line: RunLine | None = None
    text: str = ""


class QueueScreen:
    """The state of the screen. Keys go in, lines come out; it touches nothing."""

    def __init__(self, overview_filter: OverviewFilter, *, ended: int = 0, message: str = "") -> None:
        self.wanted, self.ended, self.message = overview_filter, ended, message
        self.overview: Overview | None = None
        self.prompt: Prompt | None = None
        self.action: Action | None = None
        self._help = False
        self._chosen = ""  # run id
        self._at = 0  # its place, for when it goes
        self._top = 0
        self._find = ""
        self._page = 10

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
        if not rows:
            return None
        self._at = min(self._at, len(rows) - 1)
        self._chosen = rows[self._at].run
        return rows[self._at]

    # -- keys ---------------------------------------------------------------------------------------------------

    def key(self, key: str) -> Action | None:
        """Take a key; what is to be done about it elsewhere."""
        self.action = None
        if self.prompt is not None:
            self._type(self.prompt, key)
        elif self._help:
            self._help = False
        else:
            self.message = ""
            self._press(key)
        return self.action

    def _press(self, key: str) -> None:
        page = self._page
        moves = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -page, "page down": page, "b": -page, " ": page}
        moves |= {"home": -(1 << 30), "g": -(1 << 30), "end": 1 << 30, "G": 1 << 30}
        chosen = self.chosen
        if key in moves:
            self._choose(self._at + moves[key])
        elif key in ("enter", "l", "right"):
            self._about(chosen, "log")
        elif key == "a":
            self._about(chosen, "attach")
        elif key == "s":
            self._ask_why(chosen)
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
            self.action = Action(known[key]) if key in known else None

    def _type(self, prompt: Prompt, key: str) -> None:
        if prompt.yes_no:
            self.prompt = None
            if key in ("y", "Y"):
                prompt.done("y")
            else:
                self.message = "nothing was done"
        elif key == "enter":
            self.prompt = None
            prompt.done(prompt.text.strip())
        elif key == "escape":
            self.prompt = None
        elif key == "backspace":
            prompt.text = prompt.text[:-1]
        elif key == "erase":
            prompt.text = ""
        elif len(key) == 1 and key.isprintable():
            prompt.text += key

    def _choose(self, at: int) -> None:
        rows = self.rows
        if rows:
            self._at = max(0, min(len(rows) - 1, at))
            self._chosen = rows[self._at].run

    def _about(self, line: RunLine | None, what: str, text: str = "") -> None:
        if line is None:
            self.message = "there is no run to choose"
        else:
            self.action = Action(what, line, text)

    def _ask_why(self, line: RunLine | None) -> None:
        if line is None or not line.state.lives:
            self.message = "there is no run to choose" if line is None else f"{line.run} is over"
            return

        def sure(why: str) -> None:
            reason = why or "asked for at the screen"
            question = f"stop {line.run}, {line.state.value} at {line.place}? y, or any other key for no "
            self.prompt = Prompt(question, lambda _: self._about(line, "stop", reason), yes_no=True)

        self.prompt = Prompt(f"stop {line.run}; why? ", sure)

    def _filter(self, text: str) -> None:
        self.wanted = replace(self.wanted, words=tuple(text.split()))
        self._top = 0

    def _search(self, text: str) -> None:
        self._find = text
        rows = self.rows
        hits = [n for n, line in enumerate(rows) if text and mentions(line, text.split())]
        if not hits:
            self.message = f"no run that is shown mentions {text!r}" if text else ""
            return
        self._choose(next((n for n in hits if n > self._at), hits[0]))

    # -- drawing ------------------------------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Line]:
        """What is to be drawn: at most `height` lines of at most `width` cells."""
        if self._help:
            texts = [cut(f"{keys:11}  {what}", width) for keys, what in HELP]
            shown: list[Line] = [("keys", "head"), *((text, "") for text in texts)]
            return [*shown[: height - 1], ("any key comes back", "dim")][:height]
        if self.overview is None:
            return [("looking at the runs ...", "dim"), *self._foot(width)][:height]
        head = self._head(self.overview, width, max(1, height // 5))
        foot = self._foot(width)
        detail = self._detail(width, 3 if height >= 20 else 1 if height >= 12 else 0)
        room = height - len(foot) - 1  # the table's own head
        while room - len(head) - len(detail) < 3 and len(head) > 1:
            head.pop()
        while room - len(head) - len(detail) < 3 and detail:
            detail.pop()
        table = self._table(self.overview.now, width, max(1, room - len(head) - len(detail)))
        blank: list[Line] = [("", "")] * (height - len(head) - len(table) - len(detail) - len(foot))
        return [*head, *table, *blank, *detail, *foot][-height:]

    def _head(self, overview: Overview, width: int, most: int) -> list[Line]:
        shown = len(self.wanted.of(overview.runs))
        words = [time.strftime("%H:%M:%S", time.localtime(overview.now))]
        words += [f"only {' '.join(self.wanted.words)}"] if self.wanted.words else []
        words += [f"{shown} of {counts(overview.runs)}" if shown < len(overview.runs) else counts(overview.runs)]
        words += [f"by {self.wanted.sort}"]
        targets = [place for place in overview.places if place.used or place.slots or place.gpus]
        if len(targets) > most:  # then those first that somebody may have to see to
            targets.sort(key=lambda place: place.unreachable_since is None)
        lines: list[Line] = [("  ".join(words), "bold")]
        lines += _some(
            [(place_text(p, overview.now), "bad" if p.unreachable_since is not None else "") for p in targets], most
        )
        lines += _some([(campaign_text(c), "bad" if c.trouble else "") for c in overview.campaigns], most)
        lines += [(remark, "bad") for remark in overview.remarks[:2]]
        return [(cut(text, width), style) for text, style in lines]

    def _table(self, now: float, width: int, height: int) -> list[Line]:
        rows, chosen = self.rows, self.chosen
        if not rows:
            filtered = self.overview is not None and self.overview.runs
            return [("", ""), ("no run fits the filter" if filtered else "no run lives", "dim")]
        self._page = max(1, height - 1)
        self._top = max(self._at - height + 1, min(self._top, self._at, max(0, len(rows) - height)))
        part = rows[self._top : self._top + height]
        whole = grid(part, now, width - 1)
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
        told = line.trouble or line.reason or _awaited(line)
        metric = "" if line.metric_value is None else f", {line.metric_name} {line.metric_value:.6g}"
        texts = [
            f"{line.run}: {line.state.value}{f': {told}' if told else ''}",
            f"{line.idea}{metric}, {line.place}{node}{job}{gpus}",
            f"log {line.run_dir}/run.log",
        ]
        return [(cut(text, width), "dim") for text in texts[:most]]

    def _foot(self, width: int) -> list[Line]:
        if self.prompt is not None:
            text = self.prompt.question + self.prompt.text
            return [((text if len(text) < width else "…" + text[max(2, len(text) + 2 - width) :]) + "_", "bold")]
        foot = next((text for text in FEET if len(text) <= width), FEET[-1])
        return [(cut(self.message or foot, width), "bold" if self.message else "dim")]


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
