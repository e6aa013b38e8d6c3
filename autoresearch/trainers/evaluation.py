"""Read an evaluation's output: its trainer's or blueprint's lines, else pairs in any spelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.trainer import LogReader, Trainer
from autoresearch.runner.metric_lines import Tables, as_declared, bars, body, by_same_name, parse


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Reads the log of an evaluation.

    step: assigned to lines that name none, the last trained step. metrics: declared names, read in any spelling.
    """

    trainer: Trainer
    step: int
    metrics: tuple[str, ...] = ()

    def reader(self) -> LogReader:
        return EvaluationLog(self.trainer, self.trainer.reader(), self.step, by_same_name(self.metrics))


@dataclass(frozen=True, slots=True)
class EvaluationLog:
    """Reads each line on its own, and blocks of lines with the trainer's own reader, if it has one."""

    trainer: Trainer
    own: LogReader | None
    step: int
    names: Mapping[str, str] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)

    @property
    def needles(self) -> tuple[str, ...]:
        """(): any line may hold metrics."""
        return ()

    def line(self, text: str) -> Reading | None:
        """The reading of this line; None for a line of the shell's trace, `$ command`."""
        if text.startswith("$ "):
            return None
        found = self._as_trained(text)
        if found is not None:
            return found
        cells = text if bars(text) > 3 else body(text)
        line = self.tables.row(cells) or (None if self.tables.begins(cells) else parse(body(text)))
        if line is None or not line.metrics:
            return None
        step = next((value for value, _ in line.steps.values()), self.step)
        return Reading(SignalKind.VALIDATION, step, as_declared(line.metrics, self.names))

    def end(self) -> Reading | None:
        """The reading that is still open in the trainer's own reader."""
        return self.own.end() if self.own else None

    def _as_trained(self, text: str) -> Reading | None:
        if self.own is None:
            return self.trainer.read_line(text)
        known = self.own.needles
        return self.own.line(text) if not known or any(needle in text for needle in known) else None
