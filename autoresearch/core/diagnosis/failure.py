"""Failure: why a run ended badly, as far as its own output shows.

A log shows symptoms more prominently than causes: one worker runs out of memory, and a hundred lines later Ray
reports that an actor died, the engine that it is dead, and NCCL that it timed out. So every class has a rank
(`core.diagnosis.failure_kinds`), and the lowest rank wins, wherever in the log its line is. A log also contains
errors that the run survived: an error followed by two more training steps is not the cause of the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from autoresearch.core.diagnosis.failure_kinds import PATTERNS, FailureKind, Rank
from autoresearch.core.diagnosis.tracebacks import CHAIN, HEAD, IGNORED, MAX_SEEN, stripped, traceback
from autoresearch.core.text.lines import plain
from autoresearch.core.text.regex import later

__all__ = ["Failure", "FailureKind", "LogPosition", "Search", "classify", "traceback"]

MAX_LINE = 300  # characters of the proving line that are kept
STORM = 5  # as many equal tracebacks, with no step in between, are a retry storm
SURVIVED = 2  # steps after an error that show that the run survived it; Ray may print one step late

_HEADS = (HEAD, "Scheduler hit an exception: " + HEAD, "Exception Group " + HEAD)  # SGLang; Python groups
_RICH_HEAD = "─ Traceback (most recent call last) ─"
_SOURCE = ("raise ", 'File "', "assert ", "return ")  # source code quoted in a traceback proves nothing
_SPEAKER = later(r"pid=\d{1,10}|\[(?:rank|default)\d{1,5}\]")  # which of several processes printed a line
_OVERCOME = later(
    r"(?:[^\s:]{1,40}[ :]{1,3}){0,4}(?:WARNING|WARN|INFO|DEBUG)\b.*"
    r"(?:[Rr]etry|[Ss]kipp(?:ing|ed)|[Ff]all(?:ing)? ?back|[Ww]ill be ignored|[Rr]ecover)"
)  # a line that states itself that the program went on
_ECHO = later(
    r"CalledProcessError|ChildFailedError|RayTaskError|SystemExit|Error running subprocess|KeyboardInterrupt"
)  # a parent process reports the failure of a child that printed its own traceback
_EXCEPTION = later(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:\([\w.]{1,80}\))?(?::|$)")  # the last line of a traceback
_NUMBERS = later(r"0x[0-9a-f]+|\d+")
_OF_TRACEBACKS = (Rank.EXCEPTION, Rank.ANY)

# verl prints model outputs, and a model may write a traceback (verl/workers/reward_manager/naive.py)
_QUOTES = ("[prompt]", "[response]")
_QUOTED = ("[ground_truth]", "[score]", "[reward]")
_LONGEST_QUOTE = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Position of a line in the log: its number from 1 and its byte offset; 0 and -1 where unknown."""

    number: int = 0
    offset: int = -1


@dataclass(frozen=True, slots=True)
class Failure:
    """A class, and the line that proves it (stripped, at most MAX_LINE characters).

    `times`: how often it was printed since the last step.
    """

    kind: FailureKind
    line: str
    position: LogPosition = LogPosition()
    times: int = 1

    @property
    def hint(self) -> str:
        """One sentence: what to try."""
        from autoresearch.core.diagnosis.remedies import HINTS

        return HINTS[self.kind]


def classify(lines: Iterable[str], harmless: Sequence[str] = ()) -> Failure | None:
    """The most likely cause of a bad ending; None if no line shows one.

    lines: the lines of a log in order, with or without colours and prefixes. harmless: see `Search`. Within a rank
    the first line wins, as later ones are its consequences. Among exceptions the first of the last chain wins, as
    programs catch and print harmless ones earlier, unless that chain only reports the failure of a child process.
    """
    search = Search(harmless)
    for number, raw in enumerate(lines, 1):
        search.look(raw, LogPosition(number))
    return next(iter(search.failures()), None)


@dataclass(slots=True)
class _LoggedFailure:
    rank: Rank
    failure: Failure
    at_step: int  # how many steps had been printed when it was last seen
    order: int  # its ordinal among all matching lines
    final: bool = False  # the last line of a traceback


@dataclass(slots=True)
class Search:
    """Collects the failures in a log, fed line by line.

    harmless: patterns of lines that are never a cause; neither is a traceback that contains such a line.
    """

    harmless: Sequence[str] = ()
    _seen: dict[tuple[Rank, FailureKind], _LoggedFailure] = field(default_factory=dict)
    _storms: dict[str, Failure] = field(default_factory=dict)
    _steps: int = 0
    _lines: int = 0  # matching lines, of any kind
    _step_texts: set[int] = field(default_factory=set)
    _chained: bool = False  # the next traceback belongs to the one before
    _ignored: bool = False  # ... or is an "Exception ignored in" of Python
    _fresh: bool = False  # a traceback began and its last line has not been seen yet
    _quote: tuple[str, int] | None = None  # which process prints a quoted model output, and the offset where it began
    _open: bool = False  # inside a traceback whose lines are checked against `harmless`
    _spared: bool = False  # ... and one of them matched

    @property
    def wants_all(self) -> bool:
        """Whether `look` now needs every line: inside a quoted model output, or inside a traceback."""
        return self._quote is not None or (self._open and bool(self.harmless))

    @property
    def steps(self) -> int:
        """How many training steps and validations were seen."""
        return self._steps

    def step(self, text: str) -> None:
        """Take in the line of a training step or a validation; a line that is printed twice counts once."""
        if any(c.isdigit() for c in text):
            known = len(self._step_texts)
            self._step_texts.add(hash(text))
            if len(self._step_texts) == known:
                return
        self._steps += 1
        self._storms.clear()
        self._quote = None

    def nan(self, text: str, position: LogPosition) -> None:
        """Take in a step's line with a NaN metric; a single later step without one counts as recovery."""
        self._add(Rank.NAN, Failure(FailureKind.NAN, stripped(text)[:MAX_LINE], position), at_step=self._steps - 1)

    def look(self, raw: str, position: LogPosition = LogPosition()) -> None:
        """Take in one raw line of the log."""
        raw = raw[:MAX_SEEN]
        whole = stripped(raw)
        text = whole.lstrip()
        who = _SPEAKER.search(raw, 0, 200)
        speaker = who[0] if who else ""
        if self._is_quoted(text, speaker, position):
            return
        head = text.startswith(_HEADS) or _RICH_HEAD in text
        if self.harmless and self._is_harmless(raw, head=head, inside=whole != text):
            return
        if head:
            self._fresh, self._chained = not self._chained, False
        elif text.startswith((*CHAIN, IGNORED)):
            self._chained, self._ignored = True, text.startswith(IGNORED)
        elif not text.startswith(_SOURCE):
            if "ChildFailedError" in text:  # torchrun: each of its ranks printed the same traceback once
                self._storms.clear()
            for rank, kind, pattern in PATTERNS:
                if pattern.search(text):
                    if self._ignored and _EXCEPTION.match(text):
                        self._ignored = False
                    elif not (rank is Rank.CERTAIN and _OVERCOME.match(text)):
                        self._match(rank, Failure(kind, text[:MAX_LINE], position), speaker)
                    return

    def failures(self) -> tuple[Failure, ...]:
        """The failures that the run did not survive, each class once, the root cause first."""
        storms = [storm for storm in self._storms.values() if storm.times >= STORM]
        open_ = [seen for seen in self._seen.values() if self._steps - seen.at_step < SURVIVED]
        open_ += [_LoggedFailure(Rank.STORM, replace(s, kind=FailureKind.RETRY_STORM), self._steps, 0) for s in storms]
        by_kind: dict[FailureKind, Failure] = {}
        for seen in _root_first(open_):
            by_kind.setdefault(seen.failure.kind, seen.failure)
        return tuple(by_kind.values())

    def overcome(self) -> tuple[Failure, ...]:
        """The failures that steps followed, the root cause first.

        They count only if the run ended badly and nothing else explains it.
        """
        past = [seen for seen in self._seen.values() if self._steps - seen.at_step >= SURVIVED]
        return tuple(seen.failure for seen in _root_first(past))

    def _is_quoted(self, text: str, speaker: str, position: LogPosition) -> bool:
        if text.startswith(_QUOTES):
            self._quote = (speaker, position.offset)
            return True
        if self._quote is None:
            return False
        too_long = position.offset - self._quote[1] > _LONGEST_QUOTE
        if too_long or (speaker == self._quote[0] and text.startswith(_QUOTED)):
            self._quote = None
            return not too_long
        return speaker == self._quote[0]

    def _is_harmless(self, raw: str, *, head: bool, inside: bool) -> bool:
        """Whether to ignore a line. inside: it is indented, like the frames of a traceback."""
        hit = re.search("|".join(f"(?:{one})" for one in self.harmless), plain(raw)) is not None
        if head:
            self._open, self._spared = True, hit
            return False
        if not self._open:
            return hit
        self._spared = self._spared or hit
        if inside:
            return False
        self._open = False
        self._fresh = self._fresh and not self._spared
        return self._spared

    def _match(self, rank: Rank, failure: Failure, speaker: str) -> None:
        final = self._fresh and bool(_EXCEPTION.match(failure.line)) and not _ECHO.search(failure.line)
        if final:
            self._fresh = False
            self._count(failure, speaker)
            if rank in (*_OF_TRACEBACKS, Rank.NAN):  # replaces earlier ones with other texts
                for key, old in list(self._seen.items()):
                    if key[0] in _OF_TRACEBACKS and old.failure.line != failure.line:
                        del self._seen[key]
        self._add(rank, failure, final=final)

    def _add(self, rank: Rank, failure: Failure, *, final: bool = False, at_step: int | None = None) -> None:
        self._lines += 1
        now = self._steps if at_step is None else at_step
        old = self._seen.get((rank, failure.kind))
        same = old is not None and _shape(old.failure.line) == _shape(failure.line)
        overcome = old is not None and now - old.at_step >= SURVIVED
        if old is None or (overcome and (rank is Rank.NAN or not same)):  # a new failure
            self._seen.pop((rank, failure.kind), None)
            self._seen[rank, failure.kind] = _LoggedFailure(rank, failure, now, self._lines, final)
            return
        if rank is Rank.NAN or not same:  # an error repeated at every step that the run survives is not why it ended
            old.at_step = now
        old.failure = replace(old.failure, times=old.failure.times + 1)

    def _count(self, failure: Failure, speaker: str) -> None:
        """Count one more traceback, per process: in one crash every rank prints the same one."""
        key = f"{speaker} {_shape(failure.line)}"
        old = self._storms.get(key)
        self._storms[key] = replace(old, times=old.times + 1) if old else failure


def _shape(line: str) -> str:
    """The line with every number and address replaced by `#`."""
    return _NUMBERS.sub("#", line)


def _root_first(logged: Sequence[_LoggedFailure]) -> list[_LoggedFailure]:
    """Sort by rank, then by order in the log, with two exceptions around the first symptom.

    A traceback before the first symptom is its root cause: when one rank raises, the others lose their peer. Network
    errors after it, or after a dead engine, are consequences: the dead process refuses connections.
    """
    never = len(logged) + max((s.order for s in logged), default=0)
    symptom = min((s.order for s in logged if s.rank is Rank.SYMPTOM), default=0)
    dead = min((s.order for s in logged if s.failure.kind is FailureKind.ENGINE_DEAD), default=never)

    def key(logged: _LoggedFailure) -> tuple[Rank, int]:
        rank = logged.rank
        if rank is Rank.ANY and logged.final and logged.order < symptom:
            rank = Rank.SYMPTOM
        elif logged.failure.kind is FailureKind.NETWORK and logged.order > min(dead, symptom or never):
            rank = Rank.JOB
        return rank, logged.order

    return sorted(logged, key=key)
