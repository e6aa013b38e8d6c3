"""A run's log: the metrics that a trainer printed there.

A log of several gigabytes has only a few hundred relevant lines. Three readers find them: `read_console` by a trainer's
byte patterns, `read_whole_log` with a trainer's own reader of metrics that are spread over several lines, and
`find_metrics` where nobody declared any line (`runner.step_finder`). A last line without a newline is skipped, because
it may be cut (`0.4` instead of `0.4137`), unless its writer `ended` cleanly.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.signal import Reading, SignalPattern
from autoresearch.core.run.trainer import LogReader
from autoresearch.readers.chunks import chunks
from autoresearch.readers.step_numbers import numbered
from autoresearch.records.hostile import open_readable
from autoresearch.runner.line_patterns import lines_with
from autoresearch.runner.step_finder import StepFinder
from autoresearch.runner.text import logical_lines, plain, without_escapes

_LONGEST = 600  # characters of a summary, which quotes a line; secrets in it are masked

ReadLine = Callable[[str], Reading | None]


@dataclass(frozen=True, slots=True)
class FoundMetrics:
    """What was found in a log. `summary`: which name was taken as the step, from which lines; "" for nothing."""

    readings: tuple[Reading, ...]
    summary: str


def read_console(
    path: Path, read_line: ReadLine, signals: Iterable[SignalPattern], offset: int = 0, *, ended: bool = False
) -> Iterator[Reading]:
    """The readings in a log from a byte offset on, in printed order.

    path, offset: the log, which may be missing, and where to start. read_line: parses one stripped line. signals: the
    Runner's patterns; only lines with a match are parsed, as the Runner sees them.
    """
    by_needles: dict[tuple[bytes, ...], list[re.Pattern[bytes]]] = {}
    for signal in signals:
        needles = tuple(needle.encode("latin-1") for needle in signal.needles)
        by_needles.setdefault(needles, []).append(re.compile(signal.pattern.encode("latin-1"), re.MULTILINE))

    def matching(text: bytes) -> Iterable[tuple[int, int]]:
        """Start and end of each matching line, in order, without duplicates."""
        found: set[tuple[int, int]] = set()
        for needles, patterns in by_needles.items():
            for low, high in lines_with(text, needles):
                if (low, high) not in found:
                    line = without_escapes(text[low:high])
                    if any(pattern.search(line) for pattern in patterns):
                        found.add((low, high))
        return sorted(found)

    return numbered(_readings(path, offset, ended, matching, read_line))


def read_whole_log(path: Path, reader: LogReader, offset: int = 0, *, ended: bool = False) -> Iterator[Reading]:
    """The readings in a log from a byte offset on, in the order of completion.

    Only lines with one of the reader's needles are passed to it. Readings without a step are counted.
    """
    needles = tuple(needle.encode() for needle in reader.needles)

    def readings() -> Iterator[Reading]:
        yield from _readings(path, offset, ended, lambda text: lines_with(text, needles), reader.line)
        if (last := reader.end()) is not None:
            yield last

    return numbered(readings())


def find_metrics(path: Path, names: Iterable[str], offset: int = 0, *, ended: bool = False) -> FoundMetrics:
    """The readings in a log from a byte offset on, in printed order; the file may be missing.

    names: declared metrics, read wherever they stand.
    """
    finder = StepFinder(names)
    for whole in _whole_lines(path, offset, ended):
        finder.feed(whole)
    readings = tuple(
        replace(reading, ordinal=line.counted)
        for line in finder.end()
        for reading in metric_keys.readings(line.step, line.metrics)
    )
    return FoundMetrics(readings, plain(finder.summary(), _LONGEST))


def _readings(
    path: Path,
    offset: int,
    ended: bool,
    line_spans: Callable[[bytes], Iterable[tuple[int, int]]],
    read_line: ReadLine,
) -> Iterator[Reading]:
    """What `read_line` says of the lines that `line_spans` finds in a piece of the log."""
    for whole in _whole_lines(path, offset, ended):
        for low, high in line_spans(whole):
            for line in logical_lines(whole[low:high]):
                if (reading := read_line(line)) is not None:
                    yield reading


def _whole_lines(path: Path, offset: int, ended: bool) -> Iterator[bytes]:
    """The log in pieces that end with a line."""
    for chunk in chunks(path, offset, ended=ended):
        text = chunk.replace(b"\r", b"\n")
        yield text[: text.rfind(b"\n") + 1]


def tail_lines(path: Path, *, max_bytes: int = 1 << 20) -> list[str]:
    """The last stripped lines of a log, within its last `max_bytes`; [] if it is missing."""
    try:
        with open_readable(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max_bytes))
            data = file.read(max_bytes)
    except OSError:
        return []
    if size > max_bytes:
        data = data[data.find(b"\n") + 1 :]
    return list(logical_lines(data))
