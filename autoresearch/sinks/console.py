"""Console: the metrics that a trainer printed, read from the log of a run.

A log of gigabytes holds a few hundred lines that matter. The trainer's own byte patterns find them; only
those lines are parsed, and nothing else is kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from autoresearch.core.lines import logical_lines
from autoresearch.core.signal import Reading
from autoresearch.sinks.chunks import chunks
from autoresearch.sinks.numbering import numbered

ReadLine = Callable[[str], Reading | None]


def read_console(
    path: Path, read_line: ReadLine, patterns: Iterable[str], offset: int = 0, *, ended: bool = False
) -> Iterator[Reading]:
    """The readings of a log from a byte offset on, in the order in which they were printed.

    path, offset: the log, missing or not, and where to begin. read_line: parses one stripped line.
    patterns: byte regexes as text, as the Runner has them; only lines that hold a match are parsed. A last
    line without its newline is left out, as of `0.4137` it may hold `0.4` only, unless the writer `ended` well.
    """
    wanted = [re.compile(pattern.encode("latin-1"), re.MULTILINE) for pattern in patterns]
    return numbered(_readings(chunks(path, offset, ended=ended), read_line, wanted))


def _readings(pieces: Iterable[bytes], read_line: ReadLine, wanted: list[re.Pattern[bytes]]) -> Iterator[Reading]:
    for chunk in pieces:
        for low, high in _spans(chunk, wanted):
            for line in logical_lines(chunk[low:high]):
                reading = read_line(line)
                if reading is not None:
                    yield reading


def _spans(chunk: bytes, wanted: list[re.Pattern[bytes]]) -> list[tuple[int, int]]:
    """Start and end of the whole lines that hold a match, in order, each once."""
    found: dict[int, int] = {}
    for pattern in wanted:
        done = 0
        for match in pattern.finditer(chunk):
            if match.start() < done:
                continue
            low = max(done, chunk.rfind(b"\n", done, match.start()) + 1)
            low = max(low, chunk.rfind(b"\r", low, match.start()) + 1)
            end = _line_end(chunk, match.start())
            if end < 0:  # torn
                break
            found[low] = done = end
    return sorted(found.items())


def _line_end(chunk: bytes, start: int) -> int:
    """Where the line around `start` ends, by newline or carriage return; -1 if it does not."""
    newline = chunk.find(b"\n", start)
    carriage = chunk.find(b"\r", start, newline if newline >= 0 else len(chunk))
    return carriage if carriage >= 0 else newline


def tail_lines(path: Path, *, max_bytes: int = 1 << 20) -> list[str]:
    """The last stripped lines of a log, within its last `max_bytes`; [] if it is missing."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max_bytes))
            data = file.read(max_bytes)
    except OSError:
        return []
    if size > max_bytes:
        data = data[data.find(b"\n") + 1 :]
    return list(logical_lines(data))
