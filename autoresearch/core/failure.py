"""Failure: why a run ended badly, as far as its own output says.

A log names symptoms louder than causes: one worker runs out of memory, and a hundred lines later Ray says
that an actor died, the engine that it is dead, and NCCL that nobody answers. So every class has a rank
(`core.failure_kinds`), and the best rank wins, wherever its line stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from autoresearch.core.failure_kinds import PATTERNS, FailureKind, Rank
from autoresearch.core.lines import plain

__all__ = ["Failure", "FailureKind", "classify", "traceback"]

MAX_LINE = 300  # characters of the proving line that are kept
MAX_TRACEBACK = 80  # lines of a traceback that are kept
_MAX_SEEN = 2000  # characters of a line that are looked at

_HEAD = "Traceback (most recent call last):"
_BAR = re.compile(r".{0,1000}?\[\d\d+:[\d:]*[<,][^\[\]]{0,300}\]")  # tqdm's, to which the next line is glued
_CHAIN = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_IGNORED = "Exception ignored in"  # Python at exit: what follows ended nothing
_SOURCE = ("raise ", 'File "', "assert ", "return ")  # code that a traceback quotes proves nothing
_OF_TRACEBACKS = (Rank.EXCEPTION, Rank.ANY)
_ECHO = re.compile(
    r"CalledProcessError|ChildFailedError|RayTaskError|SystemExit|Error running subprocess|KeyboardInterrupt"
)  # a parent's words about a child that has spoken for itself


@dataclass(frozen=True, slots=True)
class Failure:
    """A class, and the line that proves it (stripped, at most MAX_LINE characters)."""

    kind: FailureKind
    line: str

    @property
    def hint(self) -> str:
        """One sentence: what to try."""
        return self.kind.hint


def classify(lines: Iterable[str]) -> Failure | None:
    """The most likely cause of a bad ending; None where no line speaks of one.

    lines: a log's lines in order, stripped of colours and prefixes or not. Within a rank the first line
    wins, as what follows is its echo. Among exceptions it is the first of the last chain, as programs catch
    and print harmless ones on their way, unless that chain is only a parent's words about its child.
    """
    search = _Search()
    for raw in lines:
        search.look(_stripped(raw[:_MAX_SEEN]).lstrip())
    return search.best[min(search.best)] if search.best else None


@dataclass(slots=True)
class _Search:
    best: dict[Rank, Failure] = field(default_factory=dict)
    chained: bool = False  # the next traceback belongs to the one before
    fresh: bool = False  # a traceback began, and its last line has not come yet

    def look(self, text: str) -> None:
        """Take in one stripped line."""
        if text.startswith(_HEAD):
            self.fresh, self.chained = not self.chained, False
        elif text.startswith((*_CHAIN, _IGNORED)):
            self.chained = True
        elif not text.startswith(_SOURCE):
            for rank, kind, pattern in PATTERNS:
                if pattern.search(text):
                    self._found(rank, Failure(kind, text[:MAX_LINE]))
                    return

    def _found(self, rank: Rank, failure: Failure) -> None:
        if rank in _OF_TRACEBACKS and self.fresh and not _ECHO.search(failure.line):
            self.fresh = False
            for old in _OF_TRACEBACKS:
                self.best.pop(old, None)
        self.best.setdefault(rank, failure)


def _stripped(line: str) -> str:
    """One line without colours and prefixes; of a bar with a traceback behind it only the traceback."""
    text = plain(line)
    bar = _BAR.match(text) if text.endswith(_HEAD) else None
    behind = plain(text[bar.end() :]).strip() if bar else ""
    return behind if behind == _HEAD else text


_FINAL = re.compile(r"(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Died\w*)\b.{0,200}")


def traceback(lines: Sequence[str]) -> str:
    """The last traceback with the chain before it, stripped of prefixes; "" if there is none.

    At most MAX_TRACEBACK lines: of a longer one the beginning and the end are kept.
    """
    stripped = [_stripped(line[: 4 * _MAX_SEEN]) for line in lines]
    heads = [i for i, line in enumerate(stripped) if line.strip() == _HEAD]
    heads = [i for i in heads if not any(_IGNORED in line for line in stripped[max(0, i - 1) : i])] or heads
    if not heads:
        return ""
    end = _block_end(stripped, heads[-1])
    start = heads[-1]
    for head in reversed(heads[:-1]):
        between = stripped[_block_end(stripped, head) - 1 : start]
        if not any(line.strip().startswith(_CHAIN) for line in between):
            break
        start = head
    return "\n".join(_bounded(stripped[start:end]))


def _block_end(lines: Sequence[str], head: int) -> int:
    """Index after the last line of the traceback that begins at `head`.

    Frames are indented, then comes the exception's own line; Ray adds the worker's frames after it.
    """
    at = head + 1
    last = at
    while at < len(lines):
        line = lines[at]
        if line.startswith((" ", "\t")) or _FINAL.match(line.strip()):
            last = at + 1
        elif line.strip() == _HEAD or at > last:  # one line of a message of several may stand between
            break
        at += 1
    return max(last, head + 1)


def _bounded(lines: list[str]) -> list[str]:
    if len(lines) <= MAX_TRACEBACK:
        return lines
    half = MAX_TRACEBACK // 2
    return [*lines[:half], f"... {len(lines) - 2 * half} lines left out ...", *lines[-half:]]
