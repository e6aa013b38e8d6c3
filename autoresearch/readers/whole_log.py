"""Whole logs: read metrics that are spread over several lines, with a trainer's stateful reader.

Only lines with one of the reader's needles are passed to it; the rest of the log is skipped.
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
    """The readings in a log from a byte offset on, in the order of completion.

    A last line without a newline is skipped, because it may be cut (`0.4` instead of `0.4137`), unless its writer
    `ended` cleanly. Readings without a step are counted.
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
