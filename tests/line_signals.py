"""What the Runner sees on the lines of a text, by the patterns of a trainer."""

from __future__ import annotations

from collections.abc import Iterable

from autoresearch.core.metrics.signal import Reading
from autoresearch.core.run.trainer import Trainer
from autoresearch.runner.line_patterns import LinePattern, LineSignal
from autoresearch.runner.text import clean

EVENTS = ("step", "validation")


def told(trainer: Trainer, text: str | bytes, *kinds: str) -> list[LineSignal]:
    """The signals of these kinds, or of all, in the order of lines."""
    raw = text.encode() if isinstance(text, str) else text
    patterns = [LinePattern.of(signal) for signal in trainer.signals()]
    lines = [clean(line) for line in raw.replace(b"\r", b"\n").split(b"\n")]
    found = [signal for line in lines for pattern in patterns for signal in pattern.read(line)]
    return [signal for signal in found if signal.kind in kinds or not kinds]


def read_line(trainer: Trainer, line: str) -> Reading | None:
    """The reading of a lone line by the trainer's own reader."""
    reader = trainer.reader()
    return reader.line(line) or next(iter(reader.end()), None)


def kinds_of(trainer: Trainer, text: str | bytes) -> set[str]:
    return {signal.kind for signal in told(trainer, text)}


def count(signals: Iterable[LineSignal]) -> dict[str, int]:
    kinds = [signal.kind for signal in signals]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}
