"""Read an evaluation's output: its trainer's or blueprint's lines, else JSON objects and `key: value` pairs."""

from __future__ import annotations

from dataclasses import dataclass

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.trainer import LogReader, ReadsLogs, Trainer
from autoresearch.trainers.declared import loaded, pairs


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Reads the log of an evaluation. `step`: assigned to lines that name none, the last trained step."""

    trainer: Trainer
    step: int

    def reader(self) -> LogReader:
        own = self.trainer.reader() if isinstance(self.trainer, ReadsLogs) else None
        return EvaluationLog(self.trainer, own, self.step)


@dataclass(frozen=True, slots=True)
class EvaluationLog:
    """Reads each line on its own, and blocks of lines with the trainer's own reader, if it has one."""

    trainer: Trainer
    own: LogReader | None
    step: int

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
        metrics = loaded(text) or pairs(text)
        step = metric_keys.step_of(metrics)
        return Reading(SignalKind.VALIDATION, self.step if step is None else step, metrics) if metrics else None

    def end(self) -> Reading | None:
        """The reading that is still open in the trainer's own reader."""
        return self.own.end() if self.own else None

    def _as_trained(self, text: str) -> Reading | None:
        if self.own is None:
            return self.trainer.read_line(text)
        known = self.own.needles
        return self.own.line(text) if not known or any(needle in text for needle in known) else None
