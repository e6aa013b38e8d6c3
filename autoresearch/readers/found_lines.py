"""Found lines: the steps and metrics of a log whose lines nobody declared; see `runner.step_finder`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.signal import Reading
from autoresearch.readers.chunks import chunks, flat
from autoresearch.runner.step_finder import StepFinder
from autoresearch.runner.text import plain

_LONGEST = 600  # characters of a summary, which quotes a line; secrets in it are masked


@dataclass(frozen=True, slots=True)
class FoundMetrics:
    """What was found in a log. `summary`: which name was taken as the step, from which lines; "" for nothing."""

    readings: tuple[Reading, ...]
    summary: str


def find_metrics(path: Path, names: Iterable[str], offset: int = 0, *, ended: bool = False) -> FoundMetrics:
    """The readings in a log from a byte offset on, in printed order; the file may be missing.

    names: declared metrics, read wherever they stand. A last line without a newline is skipped, because it may be cut
    (`0.4` instead of `0.4137`), unless its writer `ended` cleanly.
    """
    finder = StepFinder(names)
    for chunk in chunks(path, offset, ended=ended):
        text = flat(chunk)
        finder.feed(text[: text.rfind(b"\n") + 1])
    return FoundMetrics(tuple(_readings(finder)), plain(finder.summary(), _LONGEST))


def _readings(finder: StepFinder) -> Iterator[Reading]:
    for line in finder.end():
        for reading in metric_keys.readings(line.step, line.metrics):
            yield replace(reading, ordinal=line.counted)
