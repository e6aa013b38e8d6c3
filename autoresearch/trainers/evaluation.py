"""What an evaluation prints: the lines of its trainer or of its blueprint, else JSON objects and `key: value` pairs."""

from __future__ import annotations

from dataclasses import dataclass

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.trainer import LogReader, ReadsLogs, Trainer
from autoresearch.trainers.declared import loaded, pairs


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Reads the log of an evaluation. `step`: that of a line which names none, the last one that was trained."""

    trainer: Trainer
    step: int

    def reader(self) -> LogReader:
        """A reader for one log."""
        own = self.trainer.reader() if isinstance(self.trainer, ReadsLogs) else None
        return EvaluationLog(self.trainer, own, self.step)


@dataclass(frozen=True, slots=True)
class EvaluationLog:
    """Every line by itself, and those that the trainer's own reader puts together."""

    trainer: Trainer
    own: LogReader | None
    step: int

    @property
    def needles(self) -> tuple[str, ...]:
        """None: it may be any line."""
        return ()

    def line(self, text: str) -> Reading | None:
        """The reading of this line; a line of the shell's trace, `$ command`, is none."""
        if text.startswith("$ "):
            return None
        found = self._as_trained(text)
        if found is not None:
            return found
        metrics = loaded(text) or pairs(text)
        step = metric_keys.step_of(metrics)
        return Reading(SignalKind.VALIDATION, self.step if step is None else step, metrics) if metrics else None

    def end(self) -> Reading | None:
        """What the trainer's own reader has still open."""
        return self.own.end() if self.own else None

    def _as_trained(self, text: str) -> Reading | None:
        if self.own is None:
            return self.trainer.read_line(text)
        known = self.own.needles
        return self.own.line(text) if not known or any(needle in text for needle in known) else None
