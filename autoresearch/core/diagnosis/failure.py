"""Failure: why a run ended badly, as far as its own output and the way it ended show; its kind says what one does.

A line tells a kind by few words that only such a failure prints, or by an exception's type. The words, the types and
what helps stand in kinds.yaml beside this, as torch, vLLM, SGLang, Ray, NCCL, Slurm and Python print them. An exception
that none of them holds is the program's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cache
from typing import Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.text.regex import later

_FROM_OUTSIDE = frozenset({1, 9, 15})  # HUP, KILL, TERM: the signals sent by commands that kill by name
_OURS = (Ending.FIRST_STEP_TIMEOUT, Ending.STALLED, Ending.MAX_TIME, Ending.LAUNCH_FAILED, Ending.FINISHED)
MAX_LINE = 300  # characters of the proving line that are kept
_DOTTED = r"^(?:[A-Za-z_]\w*\.)*"
_EXCEPTION = later(_DOTTED + r"(\w+)(?:\([\w.]{1,80}\))?(?:: |:?$)")
_USUAL_NAME = later(r"(?:Error|Exception|Interrupt|Exit|NotFound|Stop\w*)$")
_OF_CONNECTIONS = later(r"Connect|SSL|Proxy|Retry|RateLimit|Disconnected|Unreachable")
_FOREIGN = later(
    r"(?:site|dist)-packages/|/lib/python\d|/Python3\d+/Lib/|"
    r"<frozen |<string>|<__array|/torch/csrc/|importlib/|runpy\.py$|\.(?:pyx|pxi|cc?|cpp|cuh?|h)$"
)


class FailureKind(StrEnum):
    """What one does about a failure; its value is written into the ledger."""

    MEMORY = "memory"  # of a GPU or the host: it did not fit
    MACHINE = "machine"  # network, disk, scheduler, node, GPU, port, or a peer that fell out
    DIVERGED = "diverged"
    HANG = "hang"
    CANCELLED = "cancelled"
    PROGRAM = "program"  # what the code, its settings, data or packages say
    UNKNOWN = "unknown"
    # what the run's records show, and no line of its log
    NOT_SHOWN = "not_shown"  # a path of the checkout that its worktree does not show, or not for writing
    EVALUATION_FAILED = "evaluation_failed"
    METRIC_UNREAD = "metric_unread"
    NO_STEP = "no_step"
    ENDED_EARLY = "ended_early"
    LEFT_TRAINING = "left_training"
    CONSTRAINT_BROKEN = "constraint_broken"
    CONSTRAINT_UNREAD = "constraint_unread"


@dataclass(frozen=True, slots=True)
class TracebackFrame:
    """One frame of a traceback."""

    path: str
    line: int
    function: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the file is the user's: outside of installed packages and of Python itself."""
        return not _FOREIGN.search(self.path.replace("\\", "/"))

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f" in {self.function}" if self.function else "")


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Position of a line in the log: its number from 1 and its byte offset; 0 and -1 where unknown."""

    number: int = 0
    offset: int = -1


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind, and the line that shows it, stripped; those that a reader returns are masked, then cut at MAX_LINE."""

    kind: FailureKind
    line: str
    position: LogPosition = LogPosition()
    times: int = 1  # how often it was printed since the last step
    frame: TracebackFrame | None = None  # of an exception: the last frame in the user's own code, else the last one
    process: str = ""  # which of several processes printed it
    note: str = ""  # what the line proves beyond its kind
    is_sign: bool = False  # something else failed first, and no line says what

    @property
    def where(self) -> str:
        """The frame, for people; "" without one."""
        if self.frame is None:
            return ""
        return str(self.frame) if self.frame.is_own else f"{self.frame} (an installed package)"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The root cause, and what stands beside it in the log."""

    cause: Failure | None = None
    digest: tuple[str, ...] = ()  # lines for somebody who judges the cause
    traceback: str = ""  # the last one in the log


def killed_from_outside(ending: Ending, cause: str, returncode: int | None) -> bool:
    """Whether a signal from outside autoresearch ended the trainer or its Runner. returncode: 128 + n for signal n."""
    if ending in _OURS:
        return False
    if ending is Ending.STOPPED:
        return cause in ("sigterm", "sigquit")
    return ending is Ending.LOST or (returncode or 0) - 128 in _FROM_OUTSIDE


def with_the_end(failure: Failure | None, ending: Ending, *, killed: bool) -> Failure | None:
    """The failure to report, from the root cause found in the log and the way the run ended.

    killed: see `killed_from_outside`. What an interrupted trainer prints is no cause, and an engine goes with its
    Runner. A run that was ended as stalled, with no cause in its log, hung.
    """
    if failure is not None:
        interrupted = failure.line.startswith("KeyboardInterrupt") and (killed or ending is Ending.STOPPED)
        if interrupted or (failure.is_sign and ending is Ending.LOST):
            failure = None
    if failure is None and ending is Ending.STALLED:
        return Failure(FailureKind.HANG, "")
    return failure


class Rank(IntEnum):
    """How well a line explains the end of a run; the lowest seen wins."""

    PROOF = 0  # a message that only this failure prints
    DIVERGED = 1  # not fatal by itself, but of what follows it the cause
    CAUSE = 2  # the last line of a traceback, or a program's last word
    BARE = 3  # an exception without its traceback
    SIGN = 4  # something else died first: a timeout of NCCL, a dead engine, a dead actor, a fatal signal
    REPORT = 5  # only a report that something else failed


@dataclass(frozen=True, slots=True)
class LineMeaning:
    """What a line tells."""

    kind: FailureKind
    rank: Rank
    note: str = ""
    outside: bool = False  # kernel, scheduler or shell say it


@dataclass(frozen=True, slots=True)
class KindTable:
    """kinds.yaml. needles: every line that can be matched, or that begins what can be, holds one, in small letters."""

    kinds: Mapping[FailureKind, Mapping[str, Any]]
    types: Mapping[str, LineMeaning]  # of exceptions, by their names
    words: tuple[tuple[re.Pattern[str], LineMeaning], ...]
    needles: tuple[bytes, ...]

    def policy(self, failure_kind: FailureKind) -> str:
        """What a campaign may do after such a failure: shrink_batch, wait (and retry), stop (it is a result), ask."""
        return str(self.kinds[failure_kind]["policy"])

    def remedy(self, word: str) -> str:
        """One sentence, what to try; "" for a word that is no kind, as in records of before."""
        return str(self.kinds[FailureKind(word)]["remedy"]) if word in set(FailureKind) else ""

    def suggestions(self, failure_kind: FailureKind, trainer: str = "") -> tuple[str, ...]:
        """What to try, the most likely first."""
        about = self.kinds[failure_kind]
        base = trainer.removesuffix("_swarm")
        own = about.get("trainers", {}).get("verl" if base == "agentjet" else base, ())
        return (about["remedy"], *own, *about.get("more", ()))

    def match(self, line: str) -> LineMeaning | None:
        """What the words of a line tell, stripped of colours and prefixes."""
        return next((meaning for regex, meaning in self.words if regex.search(line)), None)


@cache
def table() -> KindTable:
    """kinds.yaml, read once."""
    from importlib import resources  # takes milliseconds to import, and more in Python 3.12 and later

    import yaml

    text = resources.files(__package__).joinpath("kinds.yaml").read_text("utf-8")
    data: Mapping[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    words = tuple(
        (
            later("|".join(entry["lines"]).replace("^@", _DOTTED)),
            LineMeaning(
                FailureKind(entry["kind"]),
                Rank[entry["rank"].upper()],
                entry.get("note", ""),
                entry.get("outside", False),
            ),
        )
        for entry in data["words"]
    )
    types = {
        name: LineMeaning(FailureKind(kind), Rank[rank.upper()])
        for rank, kinds in data["exceptions"].items()
        for kind, names in kinds.items()
        for name in names
    }
    needles = tuple(needle.encode() for needle in data["needles"])
    return KindTable({FailureKind(kind): about for kind, about in data["kinds"].items()}, types, words, needles)


def of_line(text: str) -> LineMeaning | None:
    """What a line tells that ends no traceback; None if it tells nothing."""
    exception = _EXCEPTION.match(text)
    if exception is None or not (exception[1] in table().types or _USUAL_NAME.search(exception[1])):
        return table().match(text)
    meaning = of_exception(text)
    return LineMeaning(meaning.kind, Rank.BARE, meaning.note) if meaning.rank is Rank.CAUSE else meaning


def of_exception(text: str) -> LineMeaning:
    """What an exception tells by its words, else by its type; the program's own if neither says more."""
    if (meaning := table().match(text)) is not None:
        return meaning
    name = match[1] if (match := _EXCEPTION.match(text)) else ""
    if name in table().types:
        return table().types[name]
    return LineMeaning(FailureKind.MACHINE if _OF_CONNECTIONS.search(name) else FailureKind.PROGRAM, Rank.CAUSE)
