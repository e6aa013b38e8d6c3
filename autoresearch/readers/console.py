"""A run's log: the metrics that a trainer printed there.

A last line without a newline is skipped, because it may be cut (`0.4` instead of `0.4137`), unless its writer `ended`
cleanly.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.metrics.line_reader import LineReader
from autoresearch.core.metrics.signal import Reading
from autoresearch.core.text.regex import later
from autoresearch.readers.chunks import chunks
from autoresearch.readers.step_numbers import numbered
from autoresearch.records.lines import tail
from autoresearch.runner.text import logical_lines, plain

_TORN = later(r"\{[^}]*\Z| - [^:\s]*\Z")  # a dict, or a pair, that ends nowhere


def read_whole_log(path: Path, reader: LineReader, offset: int = 0, *, ended: bool = False) -> Iterator[Reading]:
    """The readings in a log from a byte offset on, in the order of completion; the file may be missing.

    Readings without a step are counted.
    """

    def readings() -> Iterator[Reading]:
        for chunk in chunks(path, offset, ended=ended):
            text = chunk.replace(b"\r", b"\n")
            yield from reader.feed(text[: text.rfind(b"\n") + 1])
        yield from reader.end()

    return numbered(readings())


def cut_line(path: Path, reader: LineReader, *, ended: bool = False) -> str:
    """The last line of a log if it is of a step, and cut, so that it was not read; else ""."""
    data = tail(path, 1 << 16).replace(b"\r", b"\n")
    text = next(reversed(list(logical_lines(data))), "")
    whole = (ended or data.endswith(b"\n")) and not _TORN.search(text)
    return "" if whole or not reader.knows(text) else plain(text, 80)


def tail_lines(path: Path, *, max_bytes: int = 1 << 20) -> list[str]:
    """The last stripped lines of a log, within its last `max_bytes`; [] if it is missing."""
    return list(logical_lines(tail(path, max_bytes)))
