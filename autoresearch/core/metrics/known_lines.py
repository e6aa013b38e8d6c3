"""Reads lines whose heads are known, as the Runner reads them: `runner.line_patterns`."""

from __future__ import annotations

from collections.abc import Iterable

from autoresearch.core.metrics.metric_keys import NO_STEP, renamed
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.runner.line_patterns import LinePattern


class KnownLines:
    """A `LogReader` (core/run/trainer.py) of the lines whose pattern says that metrics stand behind it."""

    def __init__(self, signals: Iterable[SignalPattern]) -> None:
        signals = [signal for signal in signals if signal.metrics]
        self._patterns = [LinePattern.of(signal) for signal in signals]
        self.needles = tuple(dict.fromkeys(needle for signal in signals for needle in signal.needles))

    def line(self, text: str) -> Reading | None:
        """The reading of a line; of several on one line, the last. One that also validates is a STEP with all metrics.

        Metrics beside the steps, such as a rollout's, are progress for the Runner, and of training here.
        """
        raw = text.encode("utf-8", "replace")
        told = [signal for pattern in self._patterns for signal in pattern.read(raw) if signal.metrics]
        if not told:
            return None
        last = max(signal.at for signal in told)
        signal = next(one for one in told if one.at == last)
        metrics = {name: value for name, value in signal.metrics.items() if name != "train/step"}  # slime's, once more
        kind = SignalKind.VALIDATION if signal.kind == SignalKind.VALIDATION else SignalKind.STEP
        if not metrics:
            return None
        return Reading(kind, NO_STEP if signal.step is None else signal.step, renamed(metrics))

    def end(self) -> Reading | None:
        """None: no reading spans several lines."""
        return None
