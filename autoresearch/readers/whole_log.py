"""Whole logs: metrics that are spread over several lines, read by a trainer's reader with a memory.

Only lines that hold one of the reader's needles are shown to it; the rest of a log of gigabytes is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.metrics.signal import Reading
from autoresearch.core.run.trainer import LogReader
from autoresearch.core.text.lines import logical_lines
from autoresearch.readers.chunks import chunks, flat
from autoresearch.readers.step_numbers import numbered
from autoresearch.runner.line_patterns import lines_with


def read_whole_log(path: Path, reader: LogReader, offset: int = 0, *, ended: bool = False) -> Iterator[Reading]:
    """The readings of a log from a byte offset on, in the order in which they were completed.

    A last line without its newline is left out, as of `0.4137` it may hold `0.4` only, unless the writer `ended`
    well. Steps that are not named are counted.
    """
    return numbered(_readings(chunks(path, offset, ended=ended), reader))


def _readings(pieces: Iterator[bytes], reader: LogReader) -> Iterator[Reading]:
    needles = tuple(needle.encode() for needle in reader.needles)
    for chunk in pieces:
        text = flat(chunk)
        whole = text[: text.rfind(b"\n") + 1]
        for low, high in lines_with(whole, needles):
            for line in logical_lines(whole[low:high]):
                if (reading := reader.line(line)) is not None:
                    yield reading
    if (reading := reader.end()) is not None:
        yield reading
