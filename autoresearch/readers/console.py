"""Console: the metrics that a trainer printed, read from a run's log.

A log of several gigabytes has only a few hundred relevant lines. The trainer's byte patterns find them; only those
lines are parsed and kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from autoresearch.core.metrics.signal import Reading, SignalPattern
from autoresearch.core.text.lines import logical_lines
from autoresearch.readers.chunks import chunks, flat
from autoresearch.readers.step_numbers import numbered
from autoresearch.records.hostile import open_readable
from autoresearch.runner.line_patterns import lines_with
from autoresearch.runner.text import without_escapes

ReadLine = Callable[[str], Reading | None]
Wanted = dict[tuple[bytes, ...], list[re.Pattern[bytes]]]


def read_console(
    path: Path, read_line: ReadLine, signals: Iterable[SignalPattern], offset: int = 0, *, ended: bool = False
) -> Iterator[Reading]:
    """The readings in a log from a byte offset on, in printed order.

    path, offset: the log, which may be missing, and where to start. read_line: parses one stripped line. signals: the
    Runner's patterns; only lines with a match are parsed, as the Runner sees them. A last line without a newline is
    skipped, because it may be cut (`0.4` instead of `0.4137`), unless its writer `ended` cleanly.
    """
    wanted: Wanted = {}
    for signal in signals:
        needles = tuple(needle.encode("latin-1") for needle in signal.needles)
        wanted.setdefault(needles, []).append(re.compile(signal.pattern.encode("latin-1"), re.MULTILINE))
    return numbered(_readings(chunks(path, offset, ended=ended), read_line, wanted))


def _readings(pieces: Iterable[bytes], read_line: ReadLine, names: Wanted) -> Iterator[Reading]:
    for chunk in pieces:
        text = flat(chunk)
        for low, high in _spans(text, text.rfind(b"\n"), names):
            for line in logical_lines(text[low:high]):
                reading = read_line(line)
                if reading is not None:
                    yield reading


def _spans(text: bytes, end: int, names: Wanted) -> list[tuple[int, int]]:
    """Start and end of each matching line that is complete before `end`, in order, without duplicates."""
    found: set[tuple[int, int]] = set()
    for needles, patterns in names.items():
        for low, high in lines_with(text, needles):
            if high > end or (low, high) in found:
                continue
            line = without_escapes(text[low:high])
            if any(pattern.search(line) for pattern in patterns):
                found.add((low, high))
    return sorted(found)


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
