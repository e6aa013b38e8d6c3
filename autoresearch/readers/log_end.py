"""Last words: what a log says of its run's end, read from the parts that matter, in bounded memory.

A trouble that two more steps followed was overcome, so the last megabytes and what stands behind the last two
steps is all that can explain an end; a run that hangs may print health checks for gigabytes behind them. Where
there are no steps, the beginning counts too: most of what fails, fails while booting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from autoresearch.core.diagnosis.failure import SURVIVED, Failure, LogPosition, Search
from autoresearch.core.diagnosis.failure_kinds import NEEDLES
from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.runner.libc import find
from autoresearch.runner.line_patterns import lines_with
from autoresearch.runner.text import without_escapes

CHUNK = 1 << 20
TAIL = 4 << 20  # read whole, always
HEAD = 4 << 20  # read whole where the log is not searched back to its steps
BACK = 1 << 29  # so far back the last two steps are looked for
COUNTED = 1 << 30  # lines are numbered up to this byte; behind it only bytes are told
STRONG = tuple(n.encode() for n in ("Traceback (most recent call last)", " out of memory", "illed", "died", "imeout"))
_OURS = tuple(needle.encode() for needle in NEEDLES)
_MOVES = (SignalKind.STEP, SignalKind.VALIDATION)


@dataclass(frozen=True, slots=True)
class LastWords:
    """Failures that nothing followed, the root cause first, and those that steps followed."""

    failures: tuple[Failure, ...] = ()
    overcome: tuple[Failure, ...] = ()
    steps: int = 0  # in what was read
    size: int = 0  # bytes of the log

    def cause(self, *, ended_badly: bool) -> Failure | None:
        """The root cause; of a run that ended badly for no other known reason, also what it seemed to overcome."""
        return next(iter(self.failures or (self.overcome if ended_badly else ())), None)


def last_words(path: Path, signals: Iterable[SignalPattern], harmless: Sequence[str] = ()) -> LastWords:
    """What a log says of the end of its run; nothing where it is missing.

    signals: the trainer's own patterns; those of steps, validations and NaN are used. harmless: patterns of lines
    that end nothing, nor does a traceback that holds one.
    """
    try:
        file = path.open("rb")
    except OSError:
        return LastWords()
    with file:
        size = file.seek(0, 2)
        reader = _LogEndReader(file, [_Shape.of(s) for s in signals if s.kind in (*_MOVES, SignalKind.NAN)])
        search = Search(harmless)
        for low, high in reader.parts(size):
            reader.show(low, high, search)
        found = _numbered(file, search.failures())
        return LastWords(found, _numbered(file, search.overcome()), search.steps, size)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A signal's pattern, compiled."""

    moves: bool
    regex: re.Pattern[bytes]
    needles: tuple[bytes, ...]

    @classmethod
    def of(cls, signal: SignalPattern) -> _Shape:
        regex = re.compile(signal.pattern.encode("latin-1", "replace"), re.MULTILINE)
        return cls(signal.kind in _MOVES, regex, tuple(needle.encode() for needle in signal.needles))

    def matches(self, line: bytes) -> bool:
        """Whether this line says so."""
        return (not self.needles or any(n in line for n in self.needles)) and self.regex.search(line) is not None


class _LogEndReader:
    def __init__(self, file: BinaryIO, shapes: list[_Shape]) -> None:
        self._file = file
        self._moves = [shape for shape in shapes if shape.moves]
        self._nans = [shape for shape in shapes if not shape.moves]
        blind = any(not shape.needles for shape in shapes)  # every line must be shown
        own = tuple({needle for shape in shapes for needle in shape.needles})
        self._step_needles = () if blind else tuple({n for shape in self._moves for n in shape.needles})
        self._needles = () if blind else (*_OURS, *own)

    def parts(self, size: int) -> list[tuple[int, int]]:
        """What must be read, in order: (from, to) in bytes; each begins at a line or close behind one."""
        tail = max(0, size - TAIL)
        back, steps = tail, self._steps(tail, size)
        strong: list[tuple[int, int]] = []
        while back > 0 and steps < SURVIVED and size - back < BACK:
            low = max(0, back - CHUNK)
            data = self._read(low, back)
            if any(find(data, len(data), needle, len(needle)) for needle in STRONG):
                strong.append((low, back))
            steps += self._steps_in(data)
            back = low
        head = [] if steps >= SURVIVED or back == tail == 0 else [(0, min(HEAD, tail))]
        parts = _merged([*head, *reversed(strong), (tail, size)])
        return [*parts[:64], *parts[64:][-64:]]

    def show(self, low: int, high: int, search: Search) -> None:
        """Show a search every line of a part that may matter."""
        rest, at = b"", low
        if low:  # the line that is under way belongs to the part before
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
            self._show(data[:end].replace(b"\r", b"\n"), start, search)

    def _show(self, text: bytes, start: int, search: Search) -> None:
        for low, high in _lines(text, self._needles, lambda: search.wants_all):
            line = text[low:high]
            if not line:
                continue
            clean = without_escapes(line)
            place = LogPosition(0, start + low)
            moves = any(shape.matches(clean) for shape in self._moves)
            if moves:
                search.step(clean.decode("utf-8", "replace"))
            if any(shape.matches(clean) for shape in self._nans):
                search.nan(line.decode("utf-8", "replace"), place)
            elif not moves:
                search.look(line.decode("utf-8", "replace"), place)

    def _steps(self, low: int, high: int) -> int:
        return sum(self._steps_in(self._read(at, min(high, at + CHUNK))) for at in range(low, high, CHUNK))

    def _steps_in(self, data: bytes) -> int:
        """Different step lines in a piece; SURVIVED are enough."""
        seen: set[bytes] = set()
        flat = data.replace(b"\r", b"\n") if b"\r" in data else data
        for low, high in lines_with(flat, self._step_needles):
            line = without_escapes(flat[low:high])
            if any(shape.matches(line) for shape in self._moves):
                seen.add(line)
                if len(seen) >= SURVIVED:
                    break
        return len(seen)

    def _read(self, low: int, high: int) -> bytes:
        self._file.seek(low)
        return self._file.read(high - low)


def _merged(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same in order, with those joined that touch or overlap."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _lines(text: bytes, needles: tuple[bytes, ...], all_of: Callable[[], bool]) -> Iterator[tuple[int, int]]:
    """Lines that hold a needle, and every line as long as `all_of` says so."""
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


def _numbered(file: BinaryIO, failures: tuple[Failure, ...]) -> tuple[Failure, ...]:
    """The same with the numbers of their lines, where counting them is cheap."""
    wanted = sorted({f.place.offset for f in failures if 0 <= f.place.offset <= COUNTED})
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
    return tuple(replace(f, place=LogPosition(numbers.get(f.place.offset, 0), f.place.offset)) for f in failures)
