"""The root cause: what a log shows of each process's end, and which of it came first.

A log shows consequences more prominently than causes, and the lines of different processes have no order in time. So it
is split into processes; of each, the last traceback counts, with its chain of exceptions. Beside them stand the notices
of kernel and scheduler and other telling lines. They are ordered by rank, and then by their place in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from autoresearch.core.diagnosis.failure import (
    MAX_LINE,
    Failure,
    FailureKind,
    LineMeaning,
    LogPosition,
    Rank,
    TracebackFrame,
    of_exception,
    of_line,
)
from autoresearch.core.text.regex import later
from autoresearch.runner.text import clean_line

HEAD = "Traceback (most recent call last):"
MAX_SEEN = 2000  # characters of a line that are examined

CHAIN = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# wherever they stand on a line, as a progress bar ends without a newline: what follows them is not fatal
IGNORED = ("Exception ignored in", "Error in atexit", "--- Logging error ---", "Call stack:")

_TASK = later(r" {0,3}(\d{1,4}): (?=.)")  # srun --label
_LABEL = later(
    r"\[(?:rank|default)(?P<rank>\d{1,5})\]:"
    r"|\((?:(?P<name>[A-Za-z_][^()\n]{0,120}) )?pid=(?P<pid>\d{1,10})(?:, ip=[^()\n]{1,60})?\)"
)
_GROUP = later(r"[ +-]*\| ?|  \+ ")  # the margin of an exception group
_LOGGED = later(  # the prefix that a logger adds to each line of an error: vLLM, SGLang and slime, hydra, logging
    r"(?:ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]{1,80}:\d{1,6}\] ?"
    r"|\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\]]{0,40}\](?:\[[\w.]{1,80}\]){0,2}(?: [\w.-]{1,80}:\d{1,6})?(?: -)? "
    r"|(?:ERROR|CRITICAL):[\w.]{1,80}:"
)
_FRAME = later(r'\s*File "([^"\n]{1,400})", line (\d{1,7})(?:, in (\S{1,200}))?')
_RICH_FRAME = later(r"\s*│ (/\S{1,400}\.py|<\w+>):(\d{1,7}) in (\S{1,200})")

SURVIVED = 2  # steps after an error that show that the run survived it; Ray may print one step late
MOST_KEPT = 500  # different findings that are kept
_AFTER_WORDS = 1 << 30  # the place of a NaN that only a step shows, among what says that it diverged
MAX_TRACEBACK = 80  # lines of a traceback that are kept
_MOST_STRANGERS = 12  # lines of others within it

_HEADS = (HEAD, "Original " + HEAD)  # torch: the traceback of a worker follows the exception that reports it
_RICH_HEAD = "─ Traceback (most recent call last) ─"
_SOURCE = ("raise ", 'File "', "assert ", "return ", "│", "^")  # source code quoted in a traceback proves nothing
_WEAK = ("Exception in thread", "Task exception was never retrieved")  # ends a part of the program at most
_LEVEL = later(r"(?:[^\s:]{1,40}[ :]{1,3}){0,4}(\w*Warning|WARNING|WARN|INFO|DEBUG)\b.*")
_WENT_ON = later(r"[Rr]etry|[Ss]kipp(?:ing|ed)|[Ff]all(?:ing)? ?back|[Ww]ill be ignored|[Rr]ecover")
_EXCEPTION = later(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:\([\w.]{1,80}\))?(?::|$)")  # the last line of a traceback
_USUAL = later(
    r"(?:[A-Za-z_]\w*\.)*\w*(?:[Ee]rror|Exception|Interrupt|Exit|Warning|Died\w*|Iteration)(?:\([\w.]{1,80}\))?(?::|$)"
)
_USAGE = later(r"^\S{1,80}(?: \S{1,40})?: (?:error|fatal): |^Error: ")  # the last word of a launch
_NUMBERS = later(r"0x[0-9a-f]+|\d+")
_CLEANING_UP = frozenset(
    {"__del__", "__exit__", "close", "shutdown", "cleanup", "_cleanup", "teardown", "finish", "destroy_process_group"}
)


def split(raw: str) -> tuple[str, str]:
    """The process that printed a line, by the last of its labels, and the line without labels and colours.

    A process is `NAME pid=N` or `rank N`; "" is the program itself, or one of several that mix.
    """
    process = ""
    if task := _TASK.match(raw):
        process, raw = f"rank {task[1]}", raw[task.end() :]
    text = clean_line(raw)
    if "pid=" in raw[:200] or "[rank" in raw[:60] or "[default" in raw[:60]:
        own = raw.find(text[:40]) if text else len(raw)
        for label in _LABEL.finditer(raw, 0, own if own >= 0 else 200):
            name = (label["name"] or "").partition("[")[0]
            process = f"rank {label['rank']}" if label["rank"] else f"{name} pid={label['pid']}".strip()
    return process, text


def unstamped(text: str) -> str:
    """A line without colours and labels: without its logger's stamp."""
    if "|" in text[:40] and (margin := _GROUP.match(text)):
        text = text[margin.end() :]
    logged = _LOGGED.match(text)
    return text[logged.end() :] if logged else text


def frame(line: str) -> TracebackFrame | None:
    """The frame that a stripped line of a traceback names, in Python's form or rich's; None if it names none."""
    match = _FRAME.match(line) or _RICH_FRAME.match(line)
    return TracebackFrame(match[1], int(match[2]), (match[3] or "").rstrip("│ ")) if match else None


def classify(lines: Iterable[str], harmless: Sequence[str] = ()) -> Failure | None:
    """The most likely cause of a bad ending; None if no line shows one.

    lines: the lines of a log in order, with or without colours and prefixes. harmless: see `Search`.
    """
    return next(iter(_searched(lines, harmless).failures()), None)


def last_traceback(lines: Iterable[str], harmless: Sequence[str] = ()) -> str:
    """The last traceback in the lines of a log. harmless: as in `Search`."""
    return _searched(lines, harmless).traceback


def _searched(lines: Iterable[str], harmless: Sequence[str]) -> Search:
    search = Search(harmless)
    for number, raw in enumerate(lines, 1):
        search.look(raw, LogPosition(number))
    return search


@dataclass(slots=True)
class _Sighting:
    """What was found; equal ones of a process are counted in it."""

    failure: Failure
    rank: int
    order: int
    at_step: int  # how many steps had been printed when it was new
    chain: int = 0  # of a traceback's last line: which chain of exceptions it belongs to
    outside: bool = False
    weak: bool = False  # it ended a thread, or came while cleaning up


@dataclass(slots=True)
class _Traceback:
    """One that has begun."""

    chained: bool = False  # it follows another exception, which led to it
    weak: bool = False  # printed by a thread
    spared: bool = False
    strangers: int = 0
    last: TracebackFrame | None = None
    own: TracebackFrame | None = None  # the last one in the user's code
    source: str = ""


@dataclass(slots=True)
class _Process:
    """What one process is printing."""

    traceback: _Traceback | None = None
    coming: _Traceback = field(default_factory=_Traceback)  # what is known of the next one
    chain: int = 0
    texts: list[str] = field(default_factory=list)  # the lines of the current chain


@dataclass(slots=True)
class Search:
    """Collects the evidence in a log, fed line by line.

    harmless: patterns of lines that are never a cause; neither is a traceback that contains such a line.
    """

    harmless: Sequence[str] = ()
    steps: int = 0  # training steps and validations
    last_step: str = ""  # its line
    last_traceback: tuple[str, ...] = ()  # its lines, with its chain
    final: Failure | None = None  # the last exception, unless it ended a thread or came while cleaning up
    firsts: dict[str, Failure] = field(default_factory=dict)  # each process's first exception
    _sightings: dict[tuple[object, ...], _Sighting] = field(default_factory=dict)
    _processes: dict[str, _Process] = field(default_factory=dict)
    _open: int = 0  # tracebacks that have begun
    _chains: int = 0
    _step_texts: set[int] = field(default_factory=set)

    @property
    def traceback(self) -> str:
        """The last traceback with its exception chain, stripped of prefixes; "" if there is none.

        At most MAX_TRACEBACK lines: a longer one keeps its beginning and end.
        """
        kept = self.last_traceback
        if len(kept) > MAX_TRACEBACK:
            half = MAX_TRACEBACK // 2
            kept = (*kept[:half], f"... {len(kept) - 2 * half} lines left out ...", *kept[-half:])
        return "\n".join(kept)

    @property
    def wants_all(self) -> bool:
        """Whether `look` now needs every line, being inside a traceback."""
        return self._open > 0

    def step(self, text: str) -> None:
        """Take in the line of a training step or a validation; a line that is printed twice counts once."""
        if hash(text) not in self._step_texts:
            self._step_texts.add(hash(text))
            self.steps, self.last_step = self.steps + 1, text[:MAX_SEEN]

    def failures(self, *, ended_badly: bool = False) -> tuple[Failure, ...]:
        """The failures that fewer than two steps followed, each kind once, the root cause first.

        ended_badly: then also what ended a thread.
        """
        seen = list(self._sightings.values())
        fresh = [one for one in seen if self.steps - one.at_step < SURVIVED and (ended_badly or not one.weak)]
        lost = min((one.order for one in fresh if one.rank == Rank.SIGN), default=len(seen))
        by_kind: dict[FailureKind, Failure] = {}
        for one in fresh:  # a dead process refuses connections
            if one.failure.kind is FailureKind.MACHINE and one.chain and one.rank == Rank.CAUSE and one.order > lost:
                one.rank = Rank.REPORT
        for one in sorted(fresh, key=lambda one: (one.rank, one.order)):
            by_kind.setdefault(one.failure.kind, replace(one.failure, is_sign=one.rank >= Rank.SIGN))
        return tuple(by_kind.values())

    def notices(self) -> tuple[Failure, ...]:
        """What the kernel and the scheduler said."""
        return tuple(one.failure for one in self._sightings.values() if one.outside)

    def nan(self, text: str, position: LogPosition) -> None:
        """Take in a step's line with a NaN metric; a single later step without one counts as recovery."""
        now, old = self.steps - 1, self._sightings.get(("nan",))
        if old is not None and now - old.at_step < SURVIVED:
            old.at_step = now
        else:
            failure = Failure(FailureKind.DIVERGED, unstamped(split(text)[1])[:MAX_SEEN], position)
            self._sightings["nan",] = _Sighting(failure, Rank.DIVERGED, _AFTER_WORDS, now)

    def look(self, raw: str, position: LogPosition = LogPosition()) -> None:
        """Take in one raw line of the log."""
        name, whole = split(raw[:MAX_SEEN])
        whole = unstamped(whole)
        text = whole.lstrip()
        process = self._processes.setdefault(name, _Process())
        spared = bool(self.harmless) and re.search("|".join(f"(?:{one})" for one in self.harmless), text) is not None
        head = text.startswith(_HEADS) or _RICH_HEAD in text or (text.endswith(HEAD) and not set(text) & {*"\"'`"})
        if head or (process.traceback is None and frame(whole) is not None):  # of one whose head is not in the log
            self._begin(process, spared=spared)
        if head:
            return
        if (traceback := process.traceback) is not None:
            traceback.spared = traceback.spared or spared
            if self._is_inside(process, traceback, whole, text):
                return
            if process.traceback is None and traceback.strangers <= _MOST_STRANGERS:
                self._end(process, traceback, Failure(FailureKind.PROGRAM, text, position, process=name))
                return
        if text.startswith(CHAIN):
            process.coming.chained = True
            process.texts.append(text)
        elif (ignored := any(word in text for word in IGNORED)) or text.startswith(_WEAK):
            process.coming = _Traceback(weak=not ignored, spared=ignored)
        elif not spared and not text.startswith(_SOURCE):
            self._telling(name, text, position)

    def _begin(self, process: _Process, *, spared: bool) -> None:
        self._open += process.traceback is None
        before, process.traceback, process.coming = process.traceback, process.coming, _Traceback()
        process.traceback.spared = process.traceback.spared or spared
        if before is not None and before.last is None:  # two threads printed their heads at once
            process.traceback.weak = process.traceback.weak or before.weak
        if not process.traceback.chained:
            self._chains += 1
            process.chain, process.texts = self._chains, []
        process.texts.append(HEAD)

    def _is_inside(self, process: _Process, traceback: _Traceback, whole: str, text: str) -> bool:
        """Whether a line stands between the head of a traceback and its exception; closes the traceback at its end."""
        if found := frame(whole):
            traceback.last, traceback.strangers = found, 0
            traceback.own = found if found.is_own else traceback.own
            process.texts.append(whole)
            return True
        if not text or whole != text or text.startswith(("│", "╭", "╰", "ray::")) or set(text) <= set("^~ "):
            process.texts.append(whole)
            traceback.source = text if text.strip("^~│ ") else traceback.source
            return True
        usual = _USUAL.match(text) is not None
        if not usual and (traceback.strangers or not _EXCEPTION.match(text) or text.partition(":")[0].isupper()):
            traceback.strangers += 1
            if traceback.strangers <= _MOST_STRANGERS:
                return False
        self._open, process.traceback = self._open - 1, None
        return False

    def _end(self, process: _Process, traceback: _Traceback, failure: Failure) -> None:
        """Take in the last line of a traceback: the exception."""
        text, last = failure.line, traceback.own or traceback.last
        if traceback.spared:
            return
        process.texts.append(text)
        self.last_traceback = tuple(process.texts)
        meaning = of_exception(text)
        if text.rstrip(":") == "AssertionError" and traceback.source.startswith("assert "):
            text = f"AssertionError: {traceback.source}"
        failure = replace(failure, kind=meaning.kind, line=text, frame=last, note=meaning.note)
        weak = traceback.weak or any(one.function in _CLEANING_UP for one in (last, traceback.last) if one)
        new = self._add(replace(meaning, rank=Rank.REPORT) if weak else meaning, failure, process.chain)
        new.weak = weak
        if meaning.rank is Rank.REPORT:
            return
        self.firsts.setdefault(failure.process, failure)
        if not weak:
            self.final = failure
        if meaning.rank is Rank.CAUSE and not weak:
            self._supersede(new)
        if meaning.kind is FailureKind.MACHINE:  # a bare TimeoutError of the same chain says less
            for old in self._sightings.values():
                if old.chain == new.chain and old.failure.kind is FailureKind.UNKNOWN:
                    old.rank = Rank.REPORT

    def _supersede(self, new: _Sighting) -> None:
        """Programs catch and print errors: the last traceback takes the place of earlier ones of its process.

        Between two labelled processes there is no order, so there it does not.
        """
        for old in self._sightings.values():
            names = {old.failure.process, new.failure.process}
            if (len(names) == 1 or "" in names) and old.chain and old.chain != new.chain and old.rank == Rank.CAUSE:
                old.rank = Rank.REPORT

    def _telling(self, name: str, text: str, position: LogPosition) -> None:
        """Take in a line that belongs to no traceback."""
        meaning = of_line(text)
        if meaning is None or (text.startswith("Error: ") and meaning.rank is Rank.BARE):
            return  # programs print "Error: ..." of all that they go on from
        level = _LEVEL.match(text)
        if level and not meaning.outside:
            survived = level[1] in ("INFO", "DEBUG") or _WENT_ON.search(text)
            if meaning.rank in (Rank.CAUSE, Rank.BARE) or (meaning.rank is Rank.PROOF and survived):
                return
        new = self._add(meaning, Failure(meaning.kind, text, position, process=name, note=meaning.note))
        if _USAGE.match(text):  # a launch that read its options in vain: those before it in the file are over
            for old in self._sightings.values():
                if old is not new and old.rank == Rank.CAUSE and _USAGE.match(old.failure.line):
                    old.rank = Rank.REPORT

    def _add(self, meaning: LineMeaning, failure: Failure, chain: int = 0) -> _Sighting:
        shape = _NUMBERS.sub("#", failure.line[:MAX_LINE])
        key = (meaning.rank, failure.kind, shape, failure.process if chain else None)
        old = self._sightings.get(key)
        if old is not None:
            old.failure = replace(old.failure, times=old.failure.times + 1)
            old.rank, old.chain = meaning.rank, chain
            old.at_step = self.steps if meaning.rank is Rank.DIVERGED else old.at_step
            return old
        new = _Sighting(failure, meaning.rank, len(self._sightings), self.steps, chain, meaning.outside)
        if len(self._sightings) < MOST_KEPT or meaning.rank is Rank.PROOF:
            self._sightings[key] = new
        return new
