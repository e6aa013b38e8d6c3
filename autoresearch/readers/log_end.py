"""Find what a log says about its run's end, reading only its last megabytes.

An error followed by at least two more steps was overcome: so only what stands after the last two steps can explain the
end.
"""

from __future__ import annotations

import io
import math
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from autoresearch.core.diagnosis.failure import MAX_LINE, Diagnosis, Failure, LogPosition, table
from autoresearch.core.diagnosis.root import SURVIVED, Search
from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.core.text.regex import later
from autoresearch.records.hostile import open_readable
from autoresearch.runner import metric_lines
from autoresearch.runner.line_patterns import LinePattern
from autoresearch.runner.masking import mask_text
from autoresearch.runner.metric_lines import ParsedLine
from autoresearch.runner.text import clean, without_escapes

MOST_LINES = 40
_MOST_PROCESSES = 20
_MOST_NOTICES = 8
_WIDTH = 240
CHUNK = 1 << 20
TAIL = 4 << 20  # of a log is read
COUNTED = 1 << 28  # failures up to this byte get a line number, later ones only a byte offset
_MOVES = frozenset((SignalKind.STEP, SignalKind.VALIDATION))
_SPELLED = (b"tep", b"ter", b"poch", b"pisode", b"pdate", b"loss': ")  # a line that names a step has one of them
_TRACKERS = ("wandb:", "swanlab:", "mlflow")  # print a summary at the exit of a program that crashed, too
# that a training is over, as programs say it; `done` alone is what the scripts around them say
_END = later(
    r"(?i)\btrain\w*\b[^.!?]{0,40}\b(?:finish|complet|done\b|end(?:ed|s)?\b|over\b|success)"
    r"|\b(?:finish|complet)\w*\b[^.!?]{0,30}\btrain|\bearly.?stop|\bconverged\b|\bfinal (?:eval|valid|test|metric|re)"
    r"|\bsav(?:ed|ing)\b[^.!?]{0,40}\b(?:model|checkpoint|weights|policy|adapter)"
)
# that all of it is over, and not a part of it, such as an epoch; that it is saved proves nothing
_NO_PART = r"(?:(?!epoch|step|iter|batch|round|phase|stage|fold|worker)[^.!?]){0,40}"
_OVER = later(
    rf"(?i)\btrain(?:ing|er)?\b{_NO_PART}\b(?:finish|complet|done\b|ended\b|over\b|success)"
    rf"|\b(?:finish|complet)\w*\b{_NO_PART}\btrain(?:ing)?\b(?!{_NO_PART}(?:epoch|step|iter|batch|round|phase|stage|fold))"
    r"|\bearly.?stop(?:p|s\b)"
)
_EARLY = later(r"(?i)\bearly.?stop|\bconverged\b")  # it says why its count stops short


def last_words(
    path: Path,
    signals: Iterable[SignalPattern],
    harmless: Sequence[str] = (),
    until: int | None = None,
    *,
    spelled: bool = False,
    ended_badly: bool = False,
) -> tuple[tuple[Failure, ...], Diagnosis]:
    """The failures in a log that may explain its run's end, the root cause first, and what they say together.

    signals: the trainer's patterns; those for steps, validations and NaN are used. harmless: patterns of lines that do
    not end a run; a traceback that contains such a line does not either. until: only so many bytes of the log count.
    spelled: a line that names a step and a metric is a step, too. ended_badly: then also what ended a thread.
    """
    try:
        file: BinaryIO = io.BufferedReader(open_readable(path))
    except OSError:
        return (), Diagnosis()
    with file:
        size = min(file.seek(0, 2), file.tell() if until is None else until)
        low = max(0, size - TAIL)
        file.seek(low)
        data = file.read(size - low).replace(b"\r", b"\n")
        low += (cut := data.find(b"\n") + 1 if low else 0)  # a line that began earlier is not whole
        search, starts = _searched(data[cut:], signals, harmless, spelled=spelled)

        def placed(failures: Iterable[Failure]) -> tuple[Failure, ...]:
            return tuple(_placed(one, file, low + starts[one.position.number - 1]) for one in failures)

        causes = placed(search.failures(ended_badly=ended_badly))
        shown = digest(placed(search.firsts.values()), placed(search.notices()), search.last_step)
        return causes, Diagnosis(next(iter(causes), None), shown, search.traceback)


def _searched(
    data: bytes, signals: Iterable[SignalPattern], harmless: Sequence[str], *, spelled: bool
) -> tuple[Search, list[int]]:
    """What a text shows, and where its lines begin; the number of each position is that of its line in it."""
    lines = data.split(b"\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    search, of_steps = Search(harmless), _kinds_of_steps(data, lines, starts, signals, spelled=spelled)
    tells = _holding(data.lower(), starts, table().needles)
    for index, line in enumerate(lines):
        kinds = of_steps.get(index, set())
        if kinds & _MOVES:
            search.step(without_escapes(line).decode("utf-8", "replace"))
        if SignalKind.NAN in kinds:
            search.nan(line.decode("utf-8", "replace"), LogPosition(index + 1))
        elif line and not kinds and (index in tells or search.wants_all):
            search.look(line.decode("utf-8", "replace"), LogPosition(index + 1))
    return search, starts


def _holding(data: bytes, starts: Sequence[int], needles: Iterable[bytes]) -> set[int]:
    """Which lines hold one of these texts."""
    found = set[int]()
    for needle in needles:
        at = data.find(needle)
        while at >= 0:
            index = bisect_right(starts, at) - 1
            found.add(index)
            at = data.find(needle, starts[index + 1])
    return found


def _kinds_of_steps(
    data: bytes, lines: Sequence[bytes], starts: Sequence[int], signals: Iterable[SignalPattern], *, spelled: bool
) -> dict[int, set[str]]:
    """The kinds of the lines of the last SURVIVED steps, and of all between them and behind, by index."""
    patterns = [LinePattern.of(signal) for signal in signals if signal.kind in (*_MOVES, SignalKind.NAN)]
    blind = any(not pattern.needles for pattern in patterns)  # one without needles must see every line
    needles = {needle for one in patterns for needle in one.needles} | {*(_SPELLED if spelled else ())}
    may_be_step = range(len(lines)) if blind else _holding(data, starts, needles)
    found, steps = dict[int, set[str]](), set[bytes]()
    for index in range(len(lines) - 1, -1, -1):
        if index in may_be_step:
            cleaned = clean(lines[index])
            found[index] = {signal.kind for pattern in patterns for signal in pattern.read(cleaned)}
            if spelled and not found[index] and _names_step(cleaned):
                found[index].add(SignalKind.STEP)
            if found[index] & _MOVES:
                steps.add(without_escapes(lines[index]))
                if len(steps) >= SURVIVED:
                    break
    return found


def _names_step(line: bytes) -> bool:
    """Whether a cleaned line consists of a step and metrics, all of them numbers: another tells of a failure."""
    pairs = None if b"nan" in line else metric_lines.parse(metric_lines.body(line.decode("utf-8", "replace")))
    return pairs is not None and pairs.bare and bool(pairs.steps) and any(map(math.isfinite, pairs.metrics.values()))


def _placed(failure: Failure, file: BinaryIO, offset: int) -> Failure:
    """With its place in the whole log, and its line masked before it is cut: half a secret is not known as one."""
    number = 0
    if offset <= COUNTED:
        file.seek(0)
        number = 1 + sum(file.read(min(CHUNK, offset - at)).count(b"\n") for at in range(0, offset, CHUNK))
    return replace(failure, line=mask_text(failure.line)[:MAX_LINE], position=LogPosition(number, offset))


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How a log ends, for a run whose exit code says that all is well.

    exception: its last word, which no step, no metric and no end of the training follows. unfinished: the last step
    line of a count that stops short, such as `step 3/10`, if no end of the training follows. over: the line that says
    that the training is over, if its last count does not stop short and no step and no exception follows.
    """

    exception: Failure | None = None
    unfinished: str = ""
    over: str = ""


def end_of(path: Path, harmless: Sequence[str] = ()) -> LogEnd:
    """How a log ends, from its last megabyte. harmless: as in `last_words`."""
    search, counts = Search(harmless), dict[str, tuple[int, int, int]]()
    exception, unfinished, over, short = None, "", "", False
    for raw in _indented(path):
        before = search.final
        search.look(raw, LogPosition())
        if search.final is not before:
            final = search.final
            exception = final and replace(final, line=mask_text(final.line)[:MAX_LINE])
            over = ""
            continue
        line = metric_lines.body(raw)
        if search.wants_all or line.startswith(_TRACKERS):
            continue
        if _END.search(line):
            exception, unfinished = None, ""
            if _OVER.search(line) and (not short or _EARLY.search(line)):
                over = line
        elif (pairs := metric_lines.parse(line)) and (pairs.steps or (pairs.metrics and pairs.bare)):
            exception, unfinished, over = None, _stops_short(line, pairs, counts), ""
            short = bool(unfinished)
    return LogEnd(exception, unfinished, over)


def _indented(path: Path) -> Iterator[str]:
    """The lines of a log's last megabyte without escapes, each as it was drawn last, with its indentation."""
    try:
        with open_readable(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - CHUNK))
            data = without_escapes(file.read(CHUNK))
    except OSError:
        return
    for line in data.decode("utf-8", "replace").split("\n"):
        yield line.rstrip().rpartition("\r")[2]


def _stops_short(line: str, pairs: ParsedLine, counts: dict[str, tuple[int, int, int]]) -> str:
    """The line, if a count of it is at least two of its own strides before its total; `counts`: of earlier lines.

    Bars are redrawn, and the last drawing need not be whole.
    """
    for name, (value, total) in pairs.steps.items():
        if total > 1 and name != metric_lines.BAR:
            last, stride, _ = counts.get(name, (value, 0, 0))
            counts[name] = value, value - last if value > last else stride, total
    named = [counts[name] for name in pairs.steps if name in counts]
    return line if named and all(stride and value + 2 * stride <= total for value, stride, total in named) else ""


def digest(firsts: Sequence[Failure], notices: Sequence[Failure], last_step: str) -> tuple[str, ...]:
    """At most MOST_LINES lines: the last step, what kernel and scheduler said, each process's first exception.

    firsts: the first exception of each process. Processes with the same exception share a line.
    """
    lines = [f"last step: {mask_text(last_step)}" if last_step else "no training step was seen"]
    lines += [f"kernel, scheduler or shell: {_cited(notice)}" for notice in notices[:_MOST_NOTICES]]
    same: dict[tuple[str, str], list[Failure]] = {}
    for first in firsts:
        same.setdefault((first.line, first.where), []).append(first)
    for group in list(same.values())[:_MOST_PROCESSES]:
        first, more = group[0], f", and {len(group) - 1} more" if len(group) > 1 else ""
        lines.append(f"first exception of {first.process or 'the program'}{more}: {_cited(first)}")
        lines += [f"    at {first.where}"] if first.where else []
    lines += [f"and {len(same) - _MOST_PROCESSES} other exceptions"] if len(same) > _MOST_PROCESSES else []
    if not firsts:
        lines.append("no process printed an exception")
    return tuple(line[:_WIDTH] for line in lines[:MOST_LINES])


def _cited(failure: Failure) -> str:
    number = f"line {failure.position.number}: " if failure.position.number else ""
    return f"{number}{failure.line}"
