"""A run's log: the metrics that a trainer printed there.

A log of several gigabytes has only a few hundred relevant lines. `read_whole_log` passes those with a needle to a
trainer's reader; `find_metrics` looks where nobody declared any line (`runner.step_finder`). A last line without a
newline is skipped, because it may be cut (`0.4` instead of `0.4137`), unless its writer `ended` cleanly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.signal import LineReader, Reading
from autoresearch.core.text.regex import later
from autoresearch.readers.chunks import chunks
from autoresearch.readers.step_numbers import numbered
from autoresearch.records.lines import tail
from autoresearch.runner.metric_lines import body, parse
from autoresearch.runner.step_finder import StepFinder
from autoresearch.runner.text import Needles, logical_lines, plain

_TORN = later(r"\{[^}]*\Z| - [^:\s]*\Z")  # a dict, or a pair, that ends nowhere
_LONGEST = 600  # characters of a summary, which quotes a line; secrets in it are masked


def read_whole_log(path: Path, reader: LineReader, offset: int = 0, *, ended: bool = False) -> Iterator[Reading]:
    """The readings in a log from a byte offset on, in the order of completion.

    Only lines with one of the reader's needles are passed to it. Readings without a step are counted.
    """
    needles = Needles(map(str.encode, reader.needles))

    def readings() -> Iterator[Reading]:
        for whole in _whole_lines(path, offset, ended):
            for low, high in needles.lines(whole):
                for line in logical_lines(whole[low:high]):
                    if (reading := reader.line(line)) is not None:
                        yield reading
        if (last := reader.end()) is not None:
            yield last

    return numbered(readings())


def cut_line(path: Path, reader: LineReader | None, *, ended: bool = False) -> str:
    """The last line of a log if it is of a step, and cut, so that it was not read; else "".

    reader: of its trainer; None where steps are found.
    """
    data = tail(path, 1 << 16).replace(b"\r", b"\n")
    lines = list(logical_lines(data))
    text = lines[-1] if lines else ""
    known = (
        any(needle in text for needle in reader.needles)
        if reader
        else bool((found := parse(body(text))) and found.steps)
    )
    whole = (ended or data.endswith(b"\n")) and not _TORN.search(text)
    return "" if whole or not known else plain(text, 80)


def find_metrics(
    path: Path, names: Iterable[str], offset: int = 0, *, ended: bool = False
) -> tuple[tuple[Reading, ...], str]:
    """The readings in a log from a byte offset on, in printed order; the file may be missing.

    And which name was taken as the step, from which lines; "" for nothing. names: declared metrics, read wherever they
    stand.
    """
    finder = StepFinder(names)
    for whole in _whole_lines(path, offset, ended):
        finder.feed(whole)
    readings = tuple(
        replace(reading, ordinal=True) if line.counted else reading
        for line in finder.end()
        for reading in metric_keys.readings(line.step, line.metrics)
    )
    return readings, plain(finder.summary(), _LONGEST)


def _whole_lines(path: Path, offset: int, ended: bool) -> Iterator[bytes]:
    """The log in pieces that end with a line."""
    for chunk in chunks(path, offset, ended=ended):
        text = chunk.replace(b"\r", b"\n")
        yield text[: text.rfind(b"\n") + 1]


def tail_lines(path: Path, *, max_bytes: int = 1 << 20) -> list[str]:
    """The last stripped lines of a log, within its last `max_bytes`; [] if it is missing."""
    return list(logical_lines(tail(path, max_bytes)))
