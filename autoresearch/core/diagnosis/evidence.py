"""Evidence: what a log shows of each process's end, and which of it is the root cause.

A log shows symptoms more prominently than causes, and the lines of different processes have no order in time. So the
log is split into processes; of each, the tracebacks are kept as chains of exceptions. Beside them stand the notices of
kernel and scheduler and other telling lines (failures.yaml). Symptoms point at processes ("the actor with pid 7
died", "rank 3 failed first"): the last exception of such a process is the cause, wherever it stands. What remains is
ordered by the rank of its class. An exception that at least two training steps follow was overcome; a kill by the
scheduler is never overcome.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from autoresearch.core.diagnosis.failure import MAX_LINE, Failure, LogPosition
from autoresearch.core.diagnosis.failure_kinds import FailureKind, FailurePattern, Rank, table
from autoresearch.core.diagnosis.processes import PLAIN, LogProcess, pointers, split
from autoresearch.core.diagnosis.tracebacks import CHAIN, HEAD, IGNORED, MAX_SEEN, TracebackFrame, frame, unstamped
from autoresearch.core.text.regex import later

STORM = 5  # as many equal tracebacks, with no step in between, are a retry storm
SURVIVED = 2  # steps after an error that show that the run survived it; Ray may print one step late
MOST_KEPT = 500  # different findings that are kept

_ORIGINAL = "Original " + HEAD  # torch: the traceback of a worker follows the exception that reports it
_HEADS = (HEAD, _ORIGINAL, "Scheduler hit an exception: " + HEAD, "Exception Group " + HEAD)  # SGLang; Python groups
_RICH_HEAD = "─ Traceback (most recent call last) ─"
_SOURCE = ("raise ", 'File "', "assert ", "return ", "│", "^")  # source code quoted in a traceback proves nothing
_IGNORED = (IGNORED, "Error in atexit", "--- Logging error ---", "Call stack:")  # what follows is not fatal
_WEAK = ("Exception in thread", "Task exception was never retrieved")  # ... ends a part of the program at most
_LEVEL = later(r"(?:[^\s:]{1,40}[ :]{1,3}){0,4}(?:\w*Warning|WARNING|WARN|INFO|DEBUG)\b.*")
_WENT_ON = later(r"[Rr]etry|[Ss]kipp(?:ing|ed)|[Ff]all(?:ing)? ?back|[Ww]ill be ignored|[Rr]ecover")
_EXCEPTION = later(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:\([\w.]{1,80}\))?(?::|$)")  # the last line of a traceback
_USUAL = later(
    r"(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning|Died\w*|Iteration)"
    r"(?:\([\w.]{1,80}\))?(?::|$)"
)
_VAGUE = later(r"(?:[A-Za-z_]\w*\.)*(?:KeyError|AttributeError|StopIteration|Empty|TimeoutError|CancelledError)\b")
_NUMBERS = later(r"0x[0-9a-f]+|\d+")
_CLEANING_UP = frozenset(
    {"__del__", "__exit__", "close", "shutdown", "cleanup", "_cleanup", "teardown", "finish", "destroy_process_group"}
)
_LONGEST_BLOCK = 400  # lines of one traceback
_MOST_STRANGERS = 12  # lines of others within it
_OF_TRACEBACKS = (Rank.EXCEPTION, Rank.ANY)

# verl prints model outputs, and a model may write a traceback (verl/workers/reward_manager/naive.py)
_QUOTES = ("[prompt]", "[response]")
_QUOTED = ("[ground_truth]", "[score]", "[reward]")
_LONGEST_QUOTE = 1 << 16  # bytes


def classify(lines: Iterable[str], harmless: Sequence[str] = ()) -> Failure | None:
    """The most likely cause of a bad ending; None if no line shows one.

    lines: the lines of a log in order, with or without colours and prefixes. harmless: see `Search`.
    """
    search = Search(harmless)
    for number, raw in enumerate(lines, 1):
        search.look(raw, LogPosition(number))
    return next(iter(search.failures()), None)


@dataclass(slots=True)
class _Sighting:
    """One finding: equal ones of a process are counted in it."""

    rank: Rank
    failure: Failure
    process: LogProcess
    at_step: int  # how many steps had been printed when it was last new
    order: int  # its ordinal among all findings, of its first line and
    last: int  # of its last
    origin: str = ""
    chain: int = 0  # of a traceback's last line: which chain of exceptions it belongs to
    is_root: bool = True  # of its chain
    superseded: bool = False  # a later traceback took its place


@dataclass(slots=True)
class _Block:
    """A traceback that has begun."""

    chain: int
    link: str  # "" for the first of its chain, "during", "cause", "nested" in the message of the one before
    weak: bool = False  # printed by a thread
    lines: int = 0
    strangers: int = 0
    spared: bool = False
    own: TracebackFrame | None = None
    last: TracebackFrame | None = None


@dataclass(slots=True)
class _Printing:
    """What one process is printing."""

    block: _Block | None = None
    link: str = ""  # how the next traceback is linked to the last one
    weak: bool = False  # ... and it was printed by a thread
    ignored: bool = False  # ... or at Python's exit
    chain: int = 0
    roots: list[_Sighting] = field(default_factory=list)  # of the current chain


@dataclass(slots=True)
class Search:
    """Collects the evidence in a log, fed line by line.

    harmless: patterns of lines that are never a cause; neither is a traceback that contains such a line.
    """

    harmless: Sequence[str] = ()
    _seen: dict[tuple[object, ...], _Sighting] = field(default_factory=dict)
    _processes: dict[LogProcess, _Printing] = field(default_factory=dict)
    final: Failure | None = None  # the last exception, unless it ended a thread or came while cleaning up
    _open: int = 0  # tracebacks that have begun
    _chains: int = 0
    _pids: set[int] = field(default_factory=set)  # of processes that others name as failed
    _ranks: set[int] = field(default_factory=set)
    _firsts: dict[LogProcess, Failure] = field(default_factory=dict)
    _storms: dict[str, Failure] = field(default_factory=dict)
    _steps: int = 0
    _last_step: str = ""
    _lines: int = 0  # findings
    _step_texts: set[int] = field(default_factory=set)
    _quote: tuple[LogProcess, int] | None = None  # which process prints a model output, and the offset of its beginning

    @property
    def wants_all(self) -> bool:
        """Whether `look` now needs every line: inside a quoted model output, or inside a traceback."""
        return self._quote is not None or self._open > 0

    @property
    def steps(self) -> int:
        """How many training steps and validations were seen."""
        return self._steps

    @property
    def last_step(self) -> str:
        """The line of the last step; "" without one."""
        return self._last_step

    @property
    def firsts(self) -> tuple[Failure, ...]:
        """The first exception of each process that printed one, overcome or not."""
        return tuple(self._firsts.values())

    def step(self, text: str) -> None:
        """Take in the line of a training step or a validation; a line that is printed twice counts once."""
        if any(c.isdigit() for c in text):
            known = len(self._step_texts)
            self._step_texts.add(hash(text))
            if len(self._step_texts) == known:
                return
        self._steps += 1
        self._last_step = text[:MAX_LINE]
        self._storms.clear()
        self._quote = None

    def nan(self, text: str, position: LogPosition) -> None:
        """Take in a step's line with a NaN metric; a single later step without one counts as recovery."""
        failure = Failure(FailureKind.DIVERGED, unstamped(split(text)[1])[:MAX_LINE], position)
        self._add(Rank.NAN, failure, PLAIN, at_step=self._steps - 1)

    def look(self, raw: str, position: LogPosition = LogPosition()) -> None:
        """Take in one raw line of the log."""
        process, whole = split(raw[:MAX_SEEN])
        whole = unstamped(whole)
        text = whole.lstrip()
        if self._is_quoted(text, process, position):
            return
        printing = self._processes.setdefault(process, _Printing())
        self._point(text)
        head = text.startswith(_HEADS) or _RICH_HEAD in text
        hit = bool(self.harmless) and self._is_harmless(text)
        if head or (printing.block is None and frame(whole) is not None):  # of one whose head is not in the log
            self._begin(printing, text, spared=hit)
        if head:
            return
        if printing.block is not None and self._inside(printing, printing.block, process, whole, position, hit=hit):
            return
        if text.startswith(CHAIN):
            printing.link = "cause" if "direct cause" in text else "during"
        elif text.startswith((*_IGNORED, *_WEAK)):
            printing.link, printing.weak, printing.ignored = "", text.startswith(_WEAK), text.startswith(_IGNORED)
        elif not hit and not text.startswith(_SOURCE):
            self._telling(text, process, position)

    def _telling(self, text: str, process: LogProcess, position: LogPosition) -> None:
        """Take in a line that belongs to no traceback."""
        pattern = table().match(text)
        if pattern is None or (text.startswith("Error: ") and pattern.rank is Rank.ANY):
            return  # programs print "Error: ..." of all that they go on from
        quiet = _LEVEL.match(text) is not None
        if quiet and (pattern.rank in _OF_TRACEBACKS or (pattern.rank is Rank.CERTAIN and _WENT_ON.search(text))):
            return
        if "ChildFailedError" in text:  # torchrun: each of its ranks printed the same traceback once
            self._storms.clear()
        self._add(pattern.rank, self._failure(pattern, text, process, position), process, origin=pattern.origin)

    def _begin(self, printing: _Printing, text: str, *, spared: bool) -> None:
        if printing.block is None:
            self._open += 1
        nested = text.startswith(_ORIGINAL) or (printing.block is not None and printing.block.link == "nested")
        link = "nested" if nested else printing.link
        if not link:
            self._chains += 1
            printing.chain, printing.roots = self._chains, []
        printing.block = _Block(printing.chain, link, printing.weak, spared=spared or printing.ignored)
        printing.link, printing.weak, printing.ignored = "", False, False

    def _close(self, printing: _Printing) -> None:
        printing.block, self._open = None, self._open - 1

    def _inside(
        self,
        printing: _Printing,
        open_block: _Block,
        process: LogProcess,
        whole: str,
        position: LogPosition,
        *,
        hit: bool,
    ) -> bool:
        """Take in a line after the head of a traceback; whether it belonged to it."""
        text = whole.lstrip()
        open_block.lines += 1
        open_block.spared = open_block.spared or hit
        if open_block.lines > _LONGEST_BLOCK:
            self._close(printing)
            return False
        if found := frame(whole):
            open_block.last, open_block.strangers = found, 0
            open_block.own = found if found.is_own else open_block.own
            return True
        if whole != text or not text or text.startswith(("│", "╭", "╰", "ray::", "[")) or set(text) <= set("^~ "):
            return not text.startswith("[")
        usual = _USUAL.match(text) is not None
        if not usual and (open_block.strangers or not _EXCEPTION.match(text) or text.partition(":")[0].isupper()):
            open_block.strangers += 1
            if open_block.strangers > _MOST_STRANGERS or (open_block.link == "nested" and open_block.last is None):
                self._close(printing)
            return False
        self._close(printing)
        if not open_block.spared:
            self._final(printing, open_block, text, process, position)
        return True

    def _final(
        self, printing: _Printing, open_block: _Block, text: str, process: LogProcess, position: LogPosition
    ) -> None:
        """Take in the last line of a traceback: the exception."""
        pattern = table().match(text)
        rank, origin = (pattern.rank, pattern.origin) if pattern else (Rank.ANY, "")
        failure = self._failure(pattern, text, process, position, open_block.own or open_block.last)
        if origin != "report":
            self._firsts.setdefault(process, failure)
        frames = [one for one in (open_block.own, open_block.last) if one is not None]
        weak = open_block.weak or any(one.function in _CLEANING_UP for one in frames)
        sighting = self._add(Rank.REPORT if weak else rank, failure, process, origin=origin, chain=open_block.chain)
        if origin == "report":
            if "ChildFailedError" in text:
                self._storms.clear()
            if "ray::" in text or "creation task" in text or text.endswith(" raised:"):  # what it reports follows
                self._open += 1
                printing.block = _Block(open_block.chain, "nested")
            return
        if not weak and not text.startswith("KeyboardInterrupt"):  # which somebody sent
            self.final = failure
        if not open_block.link:
            self._count(failure, process)
        self._link(printing, sighting, open_block.link)
        if not weak and not open_block.link and (rank in (*_OF_TRACEBACKS, Rank.NAN)):
            self._supersede(sighting)

    def _link(self, printing: _Printing, sighting: _Sighting, link: str) -> None:
        """Decide which exception of the process's current chain is its root."""
        printing.roots = [one for one in printing.roots if one is not sighting]
        root = next((one for one in printing.roots if one.is_root), None)
        sighting.is_root = (
            root is None
            or sighting.rank < root.rank
            or (link == "during" and sighting.rank == root.rank and _VAGUE.match(root.failure.line) is not None)
        )
        if root is not None and sighting.is_root:
            root.is_root = False
        printing.roots.append(sighting)

    def _supersede(self, new: _Sighting) -> None:
        """Programs catch and print errors: the last traceback takes the place of earlier ones with another text.

        Between two labelled processes there is no order, so there it does not.
        """
        for old in self._seen.values():
            if (
                old.rank in _OF_TRACEBACKS
                and old is not new
                and old.failure.line != new.failure.line
                and old.chain != new.chain
                and (PLAIN in (old.process, new.process) or old.process == new.process)
            ):
                old.superseded = True

    def failures(self) -> tuple[Failure, ...]:
        """The failures that the run did not survive, each class once, the root cause first."""
        storms = [storm for storm in self._storms.values() if storm.times >= STORM]
        open_ = [seen for seen in self._seen.values() if not self._is_overcome(seen)]
        open_ += [
            _Sighting(Rank.STORM, replace(s, kind=FailureKind.RETRY_STORM), PLAIN, self._steps, 0, 0) for s in storms
        ]
        by_kind: dict[FailureKind, Failure] = {}
        for failure in self._root_first(open_):
            by_kind.setdefault(failure.kind, failure)
        return tuple(by_kind.values())

    def overcome(self) -> tuple[Failure, ...]:
        """The failures that steps followed, the root cause first.

        They count only if the run ended badly and nothing else explains it.
        """
        return tuple(self._root_first([seen for seen in self._seen.values() if self._is_overcome(seen)]))

    def notices(self) -> tuple[Failure, ...]:
        """What the kernel and the scheduler said."""
        return tuple(seen.failure for seen in self._seen.values() if seen.origin == "outside")

    def _is_overcome(self, seen: _Sighting) -> bool:
        return seen.origin != "outside" and self._steps - seen.at_step >= SURVIVED

    def _is_quoted(self, text: str, process: LogProcess, position: LogPosition) -> bool:
        if text.startswith(_QUOTES):
            self._quote = (process, position.offset)
            return True
        if self._quote is None:
            return False
        too_long = position.offset - self._quote[1] > _LONGEST_QUOTE
        if too_long or (process == self._quote[0] and text.startswith(_QUOTED)):
            self._quote = None
            return not too_long
        return process == self._quote[0]

    def _is_harmless(self, text: str) -> bool:
        return re.search("|".join(f"(?:{one})" for one in self.harmless), text) is not None

    def _point(self, text: str) -> None:
        if text.startswith("Root Cause (first observed failure)"):
            self._pids.clear()
            self._ranks.clear()
        for process in pointers(text):
            if process.pid:
                self._pids.add(process.pid)
            else:
                self._ranks.add(process.rank)

    def _failure(
        self,
        pattern: FailurePattern | None,
        text: str,
        process: LogProcess,
        position: LogPosition,
        where: TracebackFrame | None = None,
    ) -> Failure:
        kind, note = (pattern.kind, pattern.note) if pattern else (FailureKind.PYTHON_ERROR, "")
        return Failure(kind, text[:MAX_LINE], position, frame=where, process=str(process), note=note)

    def _add(
        self,
        rank: Rank,
        failure: Failure,
        process: LogProcess,
        *,
        origin: str = "",
        chain: int = 0,
        at_step: int | None = None,
    ) -> _Sighting:
        self._lines += 1
        now = self._steps if at_step is None else at_step
        shape = "" if rank is Rank.NAN else _shape(failure, chain)
        key = (rank, failure.kind, shape, process if chain else None)
        old = self._seen.get(key)
        if old is not None and rank is Rank.NAN and now - old.at_step >= SURVIVED:
            old = None  # it had recovered
        if old is None:  # an error that is repeated at every step, and that the run survives, is not new
            self._seen.pop(key, None)
            new = _Sighting(rank, failure, process, now, self._lines, self._lines, origin, chain)
            if len(self._seen) < MOST_KEPT or rank is Rank.CERTAIN:
                self._seen[key] = new
            return new
        if rank is Rank.NAN:
            old.at_step = now
        old.failure = replace(old.failure, times=old.failure.times + 1)
        old.last, old.chain, old.superseded = self._lines, chain, False
        return old

    def _count(self, failure: Failure, process: LogProcess) -> None:
        """Count one more traceback, per process: in one crash every rank prints the same one."""
        key = f"{process} {_NUMBERS.sub('#', failure.line)}"
        old = self._storms.get(key)
        self._storms[key] = replace(old, times=old.times + 1) if old else failure

    def _root_first(self, sightings: Sequence[_Sighting]) -> list[Failure]:
        """Sort by rank, then by order in the log, with these exceptions.

        The last exception of a process that others name as failed stands before all that names no certain cause. An
        exception stands before symptoms unless its own process printed one before it: when one rank raises, the others
        lose their peer. Network errors after a symptom or a dead engine are consequences: a dead process refuses
        connections.
        """
        never = 1 + max((s.last for s in sightings), default=0)
        symptoms = [s for s in sightings if s.rank is Rank.SYMPTOM]
        first = min((s.order for s in symptoms), default=never)
        dead = min((s.order for s in sightings if s.failure.kind is FailureKind.ENGINE_DEAD), default=never)
        newest: dict[LogProcess, int] = {}
        for one in sightings:
            newest[one.process] = max(newest.get(one.process, 0), one.chain)

        def key(s: _Sighting) -> tuple[float, int]:
            rank: float = s.rank
            if s.rank in (Rank.CERTAIN, Rank.STORM):
                pass
            elif s.origin == "report" or not s.is_root:
                rank = Rank.REPORT + s.superseded
            elif s.chain and s.chain == newest[s.process] and self._is_pointed_at(s.process):
                rank = min(rank, Rank.EXCEPTION - 0.5)
            elif s.superseded:
                rank = Rank.REPORT + 1
            elif s.failure.kind is FailureKind.NETWORK and s.order > min(dead, first):
                rank = Rank.REPORT
            elif s.rank is Rank.ANY and (s.chain or s.origin == "outside"):
                before = min(
                    (x.order for x in symptoms if PLAIN in (x.process, s.process) or x.process == s.process),
                    default=never,
                )
                rank = Rank.SYMPTOM - 0.5 if s.order < before else Rank.ANY
            return rank, s.order

        return [
            replace(s.failure, certain=key(s)[0] < Rank.SYMPTOM or (s.rank is Rank.ANY and s.origin != "report"))
            for s in sorted(sightings, key=key)
        ]

    def _is_pointed_at(self, process: LogProcess) -> bool:
        return process.pid in self._pids if process.pid else process.rank in self._ranks


def _shape(failure: Failure, chain: int) -> str:
    """What makes two findings equal: an exception's class and frame, else the line without its numbers."""
    if chain and failure.kind is FailureKind.PYTHON_ERROR and failure.frame is not None:
        return f"{failure.line.partition(':')[0]} {failure.frame}"
    if not chain and failure.kind is FailureKind.PYTHON_ERROR:
        return failure.line.partition(":")[0]
    return _NUMBERS.sub("#", failure.line)
