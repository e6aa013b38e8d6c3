"""The root cause: what a log shows of each process's end, and which of it came first.

A log shows symptoms more prominently than causes, and the lines of different processes have no order in time. So the
log is split into processes; of each, the tracebacks are kept as chains of exceptions. Beside them stand the notices of
kernel and scheduler and other telling lines. Signs point at processes ("the actor with pid 7 died", "rank 3 failed
first"): the last exception of such a process is the cause, wherever it stands. What remains is ordered by weight. An
exception that at least two training steps follow was overcome; a kill by the scheduler is never overcome.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from autoresearch.core.diagnosis.failure import MAX_LINE, Failure, FailureFamily, LogPosition
from autoresearch.core.diagnosis.families import LineMeaning, Weight, of_exception, of_line
from autoresearch.core.diagnosis.log_lines import (
    CHAIN,
    HEAD,
    IGNORED,
    MAX_SEEN,
    PLAIN,
    LogProcess,
    TracebackFrame,
    frame,
    learnt_prefix,
    pointers,
    split,
    unstamped,
)
from autoresearch.core.text.regex import later

STORM = 5  # as many equal tracebacks, with no step in between, are a storm of retries
SURVIVED = 2  # steps after an error that show that the run survived it; Ray may print one step late
MOST_KEPT = 500  # different findings that are kept
MAX_TRACEBACK = 80  # lines of a traceback that are kept
MOST_PREFIXES = 8

_ORIGINAL = "Original " + HEAD  # torch: the traceback of a worker follows the exception that reports it
_HEADS = (HEAD, _ORIGINAL)
_RICH_HEAD = "─ Traceback (most recent call last) ─"
_SOURCE = ("raise ", 'File "', "assert ", "return ", "│", "^")  # source code quoted in a traceback proves nothing
_WEAK = ("Exception in thread", "Task exception was never retrieved")  # ends a part of the program at most
_LEVEL = later(r"(?:[^\s:]{1,40}[ :]{1,3}){0,4}(\w*Warning|WARNING|WARN|INFO|DEBUG)\b.*")
_WENT_ON = later(r"[Rr]etry|[Ss]kipp(?:ing|ed)|[Ff]all(?:ing)? ?back|[Ww]ill be ignored|[Rr]ecover")
_EXCEPTION = later(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:\([\w.]{1,80}\))?(?::|$)")  # the last line of a traceback
_USUAL = later(
    r"(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning|Died\w*|Iteration)"
    r"(?:\([\w.]{1,80}\))?(?::|$)"
)
_USAGE = later(r"^\S{1,80}(?: \S{1,40})?: error: |^Error: ")  # the last word of a launch that read its options in vain
_VAGUE = later(
    r"(?:[A-Za-z_]\w*\.)*(?:KeyError|AttributeError|NotImplementedError|StopIteration|Empty|TimeoutError|CancelledError)\b"
)
_NUMBERS = later(r"0x[0-9a-f]+|\d+")
_CLEANING_UP = frozenset(
    {"__del__", "__exit__", "close", "shutdown", "cleanup", "_cleanup", "teardown", "finish", "destroy_process_group"}
)
_LONGEST_BLOCK = 400  # lines of one traceback
_MOST_STRANGERS = 12  # lines of others within it
_OF_TRACEBACKS = (Weight.CAUSE, Weight.ANY)

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


def last_traceback(lines: Iterable[str], harmless: Sequence[str] = ()) -> str:
    """The last traceback in the lines of a log. harmless: as in `Search`."""
    search = Search(harmless)
    for raw in lines:
        search.look(raw)
    return search.traceback


@dataclass(slots=True)
class _Sighting:
    """One finding: equal ones of a process are counted in it."""

    meaning: LineMeaning
    failure: Failure
    process: LogProcess
    at_step: int  # how many steps had been printed when it was last new
    order: int  # its ordinal among all findings, of its first line and
    last: int  # of its last
    chain: int = 0  # of a traceback's last line: which chain of exceptions it belongs to
    is_root: bool = True  # of its chain
    superseded: bool = False  # a later traceback, or launch, took its place

    @property
    def is_report(self) -> bool:
        """Whether an exception only hands on that something else failed."""
        return self.meaning.weight is Weight.REPORT and not self.meaning.outside


@dataclass(slots=True)
class _PrintedLine:
    """A line without labels and stamps. text: also without its indentation."""

    process: LogProcess
    whole: str
    text: str
    position: LogPosition


@dataclass(slots=True)
class _Block:
    """A traceback that has begun."""

    chain: int
    link: str  # "" for the first of its chain, "during", "cause", "nested" in the message of the one before
    weak: bool = False  # printed by a thread
    spared: bool = False
    lines: int = 0
    strangers: int = 0
    frames: tuple[TracebackFrame, ...] = ()  # the last two
    own: TracebackFrame | None = None


@dataclass(slots=True)
class _Printing:
    """What one process is printing."""

    block: _Block | None = None
    link: str = ""  # how the next traceback is linked to the last one
    weak: bool = False  # ... and it was printed by a thread
    ignored: bool = False  # ... or at Python's exit
    chain: int = 0
    roots: list[_Sighting] = field(default_factory=list)  # of the current chain
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
    firsts: dict[LogProcess, Failure] = field(default_factory=dict)  # each process's first exception, overcome or not
    _seen: dict[tuple[object, ...], _Sighting] = field(default_factory=dict)
    _processes: dict[LogProcess, _Printing] = field(default_factory=dict)
    _open: int = 0  # tracebacks that have begun
    _chains: int = 0
    _pids: set[int] = field(default_factory=set)  # of processes that others name as failed
    _ranks: set[int] = field(default_factory=set)
    _prefixes: list[re.Pattern[str]] = field(default_factory=list)  # learnt from tracebacks
    _findings: int = 0
    _step_texts: set[int] = field(default_factory=set)
    _quote: tuple[LogProcess, int] | None = None  # which process prints a model output, and the offset of its beginning

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
        """Whether `look` now needs every line: inside a quoted model output, or inside a traceback."""
        return self._quote is not None or self._open > 0

    def step(self, text: str) -> None:
        """Take in the line of a training step or a validation; a line that is printed twice counts once."""
        if any(c.isdigit() for c in text):
            known = len(self._step_texts)
            self._step_texts.add(hash(text))
            if len(self._step_texts) == known:
                return
        self.steps += 1
        self.last_step = text[:MAX_SEEN]
        self._quote = None

    def nan(self, text: str, position: LogPosition) -> None:
        """Take in a step's line with a NaN metric; a single later step without one counts as recovery."""
        failure = Failure(FailureFamily.DIVERGED, unstamped(split(text)[1])[:MAX_SEEN], position)
        self._add(LineMeaning(FailureFamily.DIVERGED, Weight.NAN, 2), failure, PLAIN, at_step=self.steps - 1)

    def look(self, raw: str, position: LogPosition = LogPosition()) -> None:
        """Take in one raw line of the log."""
        process, whole = self._split(raw[:MAX_SEEN])
        text = whole.lstrip()
        printed = _PrintedLine(process, whole, text, position)
        if self._is_quoted(printed):
            return
        printing = self._processes.setdefault(process, _Printing())
        self._point(text)
        head = text.startswith(_HEADS) or _RICH_HEAD in text
        spared = bool(self.harmless) and re.search("|".join(f"(?:{one})" for one in self.harmless), text) is not None
        if head or (printing.block is None and frame(whole) is not None):  # of one whose head is not in the log
            self._begin(printing, text, spared=spared)
        if head:
            return
        if printing.block is not None and self._inside(printing, printing.block, printed, spared=spared):
            return
        if text.startswith(CHAIN):
            printing.link = "cause" if "direct cause" in text else "during"
            printing.texts.append(text)
        elif (ignored := any(word in text for word in IGNORED)) or text.startswith(_WEAK):
            printing.link, printing.weak, printing.ignored = "", text.startswith(_WEAK), ignored
        elif not spared and not text.startswith(_SOURCE):
            self._telling(printed)

    def _split(self, raw: str) -> tuple[LogProcess, str]:
        """The process that printed a line, and the line without what stands before its text."""
        process, whole = split(raw)
        whole = unstamped(whole)
        if self._prefixes and (known := next(filter(None, (one.match(whole) for one in self._prefixes)), None)):
            inner, whole = split(whole[known.end() :])
            return (process if inner == PLAIN else inner), unstamped(whole)
        if (new := learnt_prefix(whole)) is not None and len(self._prefixes) < MOST_PREFIXES:
            self._prefixes.append(new)
            return self._split(raw)
        return process, whole

    def _telling(self, printed: _PrintedLine) -> None:
        """Take in a line that belongs to no traceback."""
        text = printed.text
        meaning = of_line(text)
        if meaning is None or (text.startswith("Error: ") and meaning.weight is Weight.ANY):
            return  # programs print "Error: ..." of all that they go on from
        level = _LEVEL.match(text)
        if level and not meaning.outside:
            survived = level[1] in ("INFO", "DEBUG") or _WENT_ON.search(text)
            if meaning.weight in _OF_TRACEBACKS or (meaning.weight is Weight.PROOF and survived):
                return
        new = self._add(meaning, _failure(meaning, printed), printed.process)
        if _USAGE.match(text):  # a launch that read its options in vain: those before it in the file are over
            for old in self._seen.values():
                old.superseded = old.superseded or (old is not new and bool(_USAGE.match(old.failure.line)))

    def _begin(self, printing: _Printing, text: str, *, spared: bool) -> None:
        if printing.block is None:
            self._open += 1
        nested = text.startswith(_ORIGINAL) or (printing.block is not None and printing.block.link == "nested")
        link = "nested" if nested else printing.link
        if not link:
            self._chains += 1
            printing.chain, printing.roots, printing.texts = self._chains, [], []
        printing.block = _Block(printing.chain, link, printing.weak, spared=spared or printing.ignored)
        printing.link, printing.weak, printing.ignored = "", False, False
        printing.texts.append(HEAD)

    def _close(self, printing: _Printing) -> None:
        printing.block, self._open = None, self._open - 1

    def _inside(self, printing: _Printing, open_block: _Block, printed: _PrintedLine, *, spared: bool) -> bool:
        """Take in a line after the head of a traceback; whether it belonged to it."""
        text = printed.text
        open_block.lines += 1
        open_block.spared = open_block.spared or spared
        if open_block.lines > _LONGEST_BLOCK:
            self._close(printing)
            return False
        if found := frame(printed.whole):
            open_block.frames, open_block.strangers = (*open_block.frames[-1:], found), 0
            open_block.own = found if found.is_own else open_block.own
            printing.texts.append(printed.whole)
            return True
        within = not text or text.startswith(("│", "╭", "╰", "ray::", "[")) or set(text) <= set("^~ ")
        if within or printed.whole != text:
            printing.texts.append(printed.whole)
            return not text.startswith("[")
        usual = _USUAL.match(text) is not None
        if not usual and (open_block.strangers or not _EXCEPTION.match(text) or text.partition(":")[0].isupper()):
            open_block.strangers += 1
            if open_block.strangers > _MOST_STRANGERS or (open_block.link == "nested" and not open_block.frames):
                self._close(printing)
            return False
        self._close(printing)
        if not open_block.spared:
            printing.texts.append(text)
            self.last_traceback = tuple(printing.texts)
            self._final(printing, open_block, printed)
        return True

    def _final(self, printing: _Printing, open_block: _Block, printed: _PrintedLine) -> None:
        """Take in the last line of a traceback: the exception."""
        text, last = printed.text, open_block.frames[-1:]
        meaning = of_exception(text, open_block.frames)
        report = meaning.weight is Weight.REPORT
        failure = _failure(meaning, printed, open_block.own or next(iter(last), None))
        if not report:
            self.firsts.setdefault(printed.process, failure)
        weak = open_block.weak or any(one.function in _CLEANING_UP for one in (*last, open_block.own) if one)
        meaning = replace(meaning, weight=Weight.REPORT) if weak else meaning
        sighting = self._add(meaning, failure, printed.process, chain=open_block.chain)
        if report:
            if "ray::" in text or "creation task" in text or text.endswith(" raised:"):  # what it reports follows
                self._open += 1
                printing.block = _Block(open_block.chain, "nested")
            return
        if not weak and not text.startswith("KeyboardInterrupt"):  # which somebody sent
            self.final = replace(failure, certain=meaning.signs > 1)
        self._link(printing, sighting, open_block.link)
        if not weak and not open_block.link and meaning.weight in (*_OF_TRACEBACKS, Weight.NAN):
            self._supersede(sighting)

    def _link(self, printing: _Printing, sighting: _Sighting, link: str) -> None:
        """Decide which exception of the process's current chain is its root."""
        printing.roots = [one for one in printing.roots if one is not sighting]
        root = next((one for one in printing.roots if one.is_root), None)
        weight = sighting.meaning.weight
        sighting.is_root = (
            root is None
            or weight < root.meaning.weight
            or (link == "during" and weight == root.meaning.weight and _VAGUE.match(root.failure.line) is not None)
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
                old.meaning.weight in _OF_TRACEBACKS
                and old is not new
                and old.failure.line != new.failure.line
                and old.chain != new.chain
                and (PLAIN in (old.process, new.process) or old.process == new.process)
            ):
                old.superseded = True

    def failures(self) -> tuple[Failure, ...]:
        """The failures that the run did not survive, each family once, the root cause first."""
        by_family: dict[FailureFamily, Failure] = {}
        for failure in self._root_first([seen for seen in self._seen.values() if not self._is_overcome(seen)]):
            by_family.setdefault(failure.family, failure)
        unknown = by_family.pop(FailureFamily.UNKNOWN, None)
        return tuple(by_family.values()) or ((unknown,) if unknown else ())

    def overcome(self) -> tuple[Failure, ...]:
        """The failures that steps followed, the root cause first.

        They count only if the run ended badly and nothing else explains it.
        """
        return tuple(self._root_first([seen for seen in self._seen.values() if self._is_overcome(seen)]))

    def notices(self) -> tuple[Failure, ...]:
        """What the kernel and the scheduler said."""
        return tuple(seen.failure for seen in self._seen.values() if seen.meaning.outside)

    def _is_overcome(self, seen: _Sighting) -> bool:
        return not seen.meaning.outside and self.steps - seen.at_step >= SURVIVED

    def _is_quoted(self, printed: _PrintedLine) -> bool:
        if printed.text.startswith(_QUOTES):
            self._quote = (printed.process, printed.position.offset)
            return True
        if self._quote is None:
            return False
        too_long = printed.position.offset - self._quote[1] > _LONGEST_QUOTE
        if too_long or (printed.process == self._quote[0] and printed.text.startswith(_QUOTED)):
            self._quote = None
            return not too_long
        return printed.process == self._quote[0]

    def _point(self, text: str) -> None:
        if text.startswith("Root Cause (first observed failure)"):
            self._pids.clear()
            self._ranks.clear()
        for process in pointers(text):
            if process.pid:
                self._pids.add(process.pid)
            else:
                self._ranks.add(process.rank)

    def _add(
        self,
        meaning: LineMeaning,
        failure: Failure,
        process: LogProcess,
        *,
        chain: int = 0,
        at_step: int | None = None,
    ) -> _Sighting:
        self._findings += 1
        weight, now = meaning.weight, self.steps if at_step is None else at_step
        shape = "" if weight is Weight.NAN else _shape(failure, meaning, chain)
        key = (weight, failure.family, shape, process if chain else None)
        old = self._seen.get(key)
        if old is not None and weight is Weight.NAN and now - old.at_step >= SURVIVED:
            old = None  # it had recovered
        if old is None:  # an error that is repeated at every step, and that the run survives, is not new
            self._seen.pop(key, None)
            new = _Sighting(meaning, failure, process, now, self._findings, self._findings, chain)
            if len(self._seen) < MOST_KEPT or weight is Weight.PROOF:
                self._seen[key] = new
            return new
        if weight is Weight.NAN:
            old.at_step = now
        old.failure = replace(old.failure, times=old.failure.times + 1)
        old.last, old.chain, old.superseded = self._findings, chain, False
        return old

    def _root_first(self, sightings: Sequence[_Sighting]) -> list[Failure]:
        """Sort by weight, then by order in the log, with these exceptions.

        The last exception of a process that others name as failed stands before all that proves nothing. An exception
        stands before signs unless its own process printed one before it: when one rank raises, the others lose their
        peer. Network errors after a sign are consequences: a dead process refuses connections.
        """
        never = 1 + max((s.last for s in sightings), default=0)
        signs = [s for s in sightings if s.meaning.weight is Weight.SIGN]
        lost = [s.order for s in sightings if s.meaning.family is FailureFamily.COMMUNICATION]
        first = min((*lost, *(s.order for s in signs)), default=never)
        newest: dict[LogProcess, int] = {}
        for one in sightings:
            newest[one.process] = max(newest.get(one.process, 0), one.chain)

        def rank(s: _Sighting) -> float:
            weight: float = s.meaning.weight
            if weight == Weight.PROOF:
                return weight
            if s.is_report or not s.is_root:
                return Weight.REPORT + s.superseded
            if s.chain and s.chain == newest[s.process] and self._is_pointed_at(s.process):
                return min(weight, Weight.CAUSE - 0.5)
            if s.superseded:
                return Weight.REPORT + 1
            if s.meaning.family is FailureFamily.NETWORK and s.order > first:
                return Weight.REPORT
            if weight == Weight.ANY and (s.chain or s.meaning.outside):
                before = (x.order for x in signs if PLAIN in (x.process, s.process) or x.process == s.process)
                return Weight.SIGN - 0.5 if s.order < min(before, default=never) else weight
            return weight

        ranked = sorted(((rank(s), s.order, s) for s in sightings), key=lambda one: one[:2])
        causes = {s.failure.family for place, _, s in ranked if place < Weight.SIGN and place <= ranked[0][0] + 1}
        found = []
        for place, _, s in ranked:
            chain = {x.failure.family for x in sightings if s.chain and x.chain == s.chain and not x.is_report}
            alone = len(causes) <= 1 and len(chain - {FailureFamily.UNKNOWN}) <= 1
            signs_of_it = s.meaning.signs + self._is_pointed_at(s.process)
            signs_of_it += s.meaning.outside and s.meaning.weight is Weight.PROOF
            signs_of_it += alone and s.meaning.weight in (Weight.PROOF, Weight.CAUSE)
            named = place < Weight.SIGN and s.failure.family is not FailureFamily.UNKNOWN
            storm = f"the same traceback {s.failure.times} times" if s.chain and s.failure.times >= STORM else ""
            found.append(replace(s.failure, certain=named and alone and signs_of_it > 1, note=s.failure.note or storm))
        return found

    def _is_pointed_at(self, process: LogProcess) -> bool:
        return process.pid in self._pids if process.pid else process.rank in self._ranks


def _failure(meaning: LineMeaning, printed: _PrintedLine, where: TracebackFrame | None = None) -> Failure:
    return Failure(meaning.family, printed.text, printed.position, 1, where, str(printed.process), meaning.note)


def _shape(failure: Failure, meaning: LineMeaning, chain: int) -> str:
    """What makes two findings equal: an exception's class and frame, else the line without its numbers."""
    if meaning.weight is Weight.ANY and (failure.frame is not None or not chain):
        return f"{failure.line.partition(':')[0]} {failure.frame}"
    return _NUMBERS.sub("#", failure.line[:MAX_LINE])
