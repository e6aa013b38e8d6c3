"""Find what a log says about its run's end, reading only the relevant parts, in bounded memory.

An error followed by at least two more steps was overcome. So only the last megabytes and the text after the last two
steps can explain the end; a hung run may print gigabytes of health checks after them. Without any steps the beginning
matters too, as most failures happen while booting.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from autoresearch.core.diagnosis.failure import MAX_LINE, Failure, LogPosition
from autoresearch.core.diagnosis.families import table
from autoresearch.core.diagnosis.root import SURVIVED, Search
from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.core.text.regex import later
from autoresearch.records.hostile import open_readable
from autoresearch.runner import metric_lines
from autoresearch.runner.libc import find
from autoresearch.runner.line_patterns import LinePattern, lines_with
from autoresearch.runner.masking import mask_text
from autoresearch.runner.metric_lines import ParsedLine
from autoresearch.runner.text import clean, without_escapes

MOST_LINES = 40
_MOST_PROCESSES = 20
_MOST_NOTICES = 8
_WIDTH = 240
CHUNK = 1 << 20
TAIL = 4 << 20  # read completely, unless only what no steps follow is asked for
HEAD = 4 << 20  # read completely unless the last two steps were found
BACK = 1 << 29  # how far back to look for the last two steps
COUNTED = 1 << 30  # failures up to this byte get a line number, later ones only a byte offset
STRONG = tuple(n.encode() for n in ("Traceback (most recent call last)", " out of memory", "illed", "died", "imeout"))
_MOVES = (SignalKind.STEP, SignalKind.VALIDATION)
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
_EARLY = later(r"(?i)\bearly.?stop|\bconverged\b")


@dataclass(frozen=True, slots=True)
class LastWords:
    """Failures that no step followed, the root cause first, and failures that steps followed.

    digest: the lines for somebody who judges the cause, see `digest`.
    """

    failures: tuple[Failure, ...] = ()
    overcome: tuple[Failure, ...] = ()
    digest: tuple[str, ...] = ()
    traceback: str = ""  # the last one

    def cause(self, *, ended_badly: bool) -> Failure | None:
        """The root cause; if the run ended badly with no known cause, also a failure that it seemed to overcome."""
        return next(iter(self.failures or (self.overcome if ended_badly else ())), None)


def last_words(
    path: Path,
    signals: Iterable[SignalPattern],
    harmless: Sequence[str] = (),
    until: int | None = None,
    survived: bool = True,
) -> LastWords:
    """The failures in a log that may explain its run's end; empty if the log is missing.

    signals: the trainer's patterns; those for steps, validations and NaN are used. harmless: patterns of lines that do
    not end a run; a traceback that contains such a line does not either. until: only so many bytes of the log count.
    survived: whether failures that steps followed are asked for, too.
    """
    try:
        file = io.BufferedReader(open_readable(path))
    except OSError:
        return LastWords()
    with file:
        size = min(file.seek(0, 2), file.tell() if until is None else until)
        reader = _LogEndReader(file, [LinePattern.of(s) for s in signals if s.kind in (*_MOVES, SignalKind.NAN)])
        search = Search(harmless)
        for low, high in reader.parts(size, TAIL if survived else CHUNK // 16):
            reader.show(low, high, search)
        groups = (search.failures(), search.overcome(), tuple(search.firsts.values()), search.notices())
        failures, overcome, firsts, notices = _numbered(file, tuple(tuple(map(_masked, group)) for group in groups))
        shown = digest(firsts, notices, mask_text(search.last_step), search.steps)
        return LastWords(failures, overcome, shown, search.traceback)


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
            exception, over = search.final and _masked(search.final), ""
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


class _LogEndReader:
    def __init__(self, file: BinaryIO, patterns: list[LinePattern]) -> None:
        self._file = file
        self._patterns = patterns
        blind = any(not pattern.needles for pattern in patterns)  # a pattern without needles must see every line
        own = tuple({needle for pattern in patterns for needle in pattern.needles})
        self._step_needles = () if blind else own
        self._needles = () if blind else (*(needle.encode() for needle in table().needles), *own)

    def parts(self, size: int, least: int) -> list[tuple[int, int]]:
        """The byte ranges (from, to) to read, in order; each begins at or shortly after the start of a line.

        `least`: so many bytes at the end are read in any case.
        """
        tail = max(0, size - least)
        back, steps = tail, self._steps(tail, size)
        strong: list[tuple[int, int]] = []
        while back > 0 and steps < SURVIVED and size - back < BACK:
            low = max(0, back - CHUNK)
            data = self._read(low, back)
            if size - back < TAIL or any(find(data, len(data), needle, len(needle)) for needle in STRONG):
                strong.append((low, back))
            steps += self._steps_in(data)
            back = low
        head = [] if steps >= SURVIVED or back == tail == 0 else [(0, min(HEAD, tail))]
        parts = _merged([*head, *reversed(strong), (tail, size)])
        return [*parts[:64], *parts[64:][-64:]]

    def show(self, low: int, high: int, log_search: Search) -> None:
        """Pass every relevant line of a range to the search."""
        rest, at = b"", low
        if low:  # a line that began earlier belongs to the range before
            at += max(0, self._read(low - 1, min(high, low + CHUNK)).find(b"\n"))
        while at < high:
            data = self._read(at, min(high, at + CHUNK))
            if not data:
                break
            start, at = at - len(rest), at + len(data)
            data = rest + data
            end = data.rfind(b"\n") + 1 if at < high else len(data)
            if end == 0 and len(data) < 4 * CHUNK:
                end, rest = 0, data
                continue
            end = end or len(data)
            rest = data[end:]
            self._show(data[:end].replace(b"\r", b"\n"), start, log_search)

    def _show(self, text: bytes, start: int, log_search: Search) -> None:
        for low, high in _lines(text, self._needles, lambda: log_search.wants_all):
            line = text[low:high]
            if not line:
                continue
            place, kinds = LogPosition(0, start + low), self._kinds(line)
            if kinds.intersection(_MOVES):
                log_search.step(without_escapes(line).decode("utf-8", "replace"))
            if SignalKind.NAN in kinds:
                log_search.nan(line.decode("utf-8", "replace"), place)
            elif not kinds:
                log_search.look(line.decode("utf-8", "replace"), place)

    def _steps(self, low: int, high: int) -> int:
        return sum(self._steps_in(self._read(at, min(high, at + CHUNK))) for at in range(low, high, CHUNK))

    def _steps_in(self, data: bytes) -> int:
        """The number of distinct step lines in this data, at most SURVIVED."""
        seen: set[bytes] = set()
        flat = data.replace(b"\r", b"\n") if b"\r" in data else data
        for low, high in lines_with(flat, self._step_needles):
            if self._kinds(flat[low:high]).intersection(_MOVES):
                seen.add(without_escapes(flat[low:high]))
                if len(seen) >= SURVIVED:
                    break
        return len(seen)

    def _kinds(self, line: bytes) -> set[str]:
        cleaned = clean(line)
        return {signal.kind for pattern in self._patterns for signal in pattern.read(cleaned)}

    def _read(self, low: int, high: int) -> bytes:
        self._file.seek(low)
        return self._file.read(high - low)


def _merged(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges in order, with touching or overlapping ones joined."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _lines(text: bytes, needles: tuple[bytes, ...], all_of: Callable[[], bool]) -> Iterator[tuple[int, int]]:
    """Lines that hold a needle, and every line while `all_of` returns True."""
    done = 0
    for low, high in lines_with(text, needles):
        while all_of() and done < low:
            end = text.find(b"\n", done)
            yield done, end
            done = end + 1
        if low >= done:
            yield low, high
            done = high + 1
    while all_of() and done < len(text):
        end = text.find(b"\n", done)
        end = end if end >= 0 else len(text)
        yield done, end
        done = end + 1


def _numbered(file: BinaryIO, groups: tuple[tuple[Failure, ...], ...]) -> list[tuple[Failure, ...]]:
    """The failures with their line numbers, as far as counting lines is cheap."""
    wanted = sorted({f.position.offset for group in groups for f in group if 0 <= f.position.offset <= COUNTED})
    numbers: dict[int, int] = {}
    line, at = 1, 0
    file.seek(0)
    for offset in wanted:
        while at < offset:
            data = file.read(min(CHUNK, offset - at))
            if not data:
                break
            line, at = line + data.count(b"\n"), at + len(data)
        numbers[offset] = line
    return [
        tuple(replace(f, position=LogPosition(numbers.get(f.position.offset, 0), f.position.offset)) for f in group)
        for group in groups
    ]


def digest(firsts: Sequence[Failure], notices: Sequence[Failure], last_step: str, steps: int) -> tuple[str, ...]:
    """At most MOST_LINES lines: the last step, what kernel and scheduler said, each process's first exception.

    firsts: the first exception of each process. Processes with the same exception share a line.
    """
    lines = [f"last step of {steps}: {last_step}" if last_step else "no training step was seen"]
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


def _masked(failure: Failure) -> Failure:
    """With its line masked before it is cut: half a secret would not be known as one."""
    return replace(failure, line=mask_text(failure.line)[:MAX_LINE])


def _cited(failure: Failure) -> str:
    number = f"line {failure.position.number}: " if failure.position.number else ""
    return f"{number}{failure.line}"
