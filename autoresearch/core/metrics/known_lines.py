"""Reads lines whose heads are known, as the Runner reads them: `runner.line_patterns`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from autoresearch.core.metrics.metric_keys import NO_STEP, renamed
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.metrics.step_line import STEP, VALIDATION
from autoresearch.core.run.trainer import LogReader
from autoresearch.runner.dashed_pairs import LineTemplates
from autoresearch.runner.line_patterns import LinePattern, pairs_of_part, step_of


class KnownLines(LogReader):
    """Reads the lines whose pattern says that metrics stand behind it."""

    needles: tuple[str, ...] = ()

    def __init__(self, signals: Iterable[SignalPattern]) -> None:
        signals = [signal for signal in signals if signal.metrics]
        self._patterns = [LinePattern.of(signal) for signal in signals]
        self._templates = LineTemplates()
        self._last: tuple[bytes, Mapping[str, float]] = (b"", {})  # which a step and a validation ask for
        self.needles = tuple(dict.fromkeys(needle for signal in signals for needle in signal.needles))

    def line(self, text: str) -> Reading | None:
        """The reading of a line; of several on one line, the last. One that also validates is a STEP with all metrics.

        Metrics beside the steps, such as a rollout's, are progress for the Runner, and of training here.
        """
        raw = text.encode("utf-8", "replace")
        heads = ((head, pairs, one.kind) for one in self._patterns for head, pairs in one.heads(raw, self._pairs_of))
        told = [found for found in heads if found[1]]
        if not told:
            return None
        head, metrics, kind = max(told, key=lambda one: one[0].start())
        if "train/step" in metrics:  # slime's, once more
            metrics = {name: value for name, value in metrics.items() if name != "train/step"}
        kind = SignalKind.VALIDATION if kind == SignalKind.VALIDATION else SignalKind.STEP
        step = step_of(head)
        return Reading(kind, NO_STEP if step is None else step, renamed(metrics)) if metrics else None

    def _pairs_of(self, part: bytes) -> Mapping[str, float]:
        if not part.startswith(b" - "):
            return pairs_of_part(part)
        if part != self._last[0]:
            self._last = part, self._templates.pairs_of(part.decode("utf-8", "replace"))
        return self._last[1]


@cache
def _reader() -> KnownLines:
    return KnownLines((STEP, VALIDATION))


def read_step_line(line: str) -> Reading | None:
    """Read a cleaned line; None if it has neither training metrics (from step 1 on) nor a validation."""
    return _reader().line(line) if "step:" in line else None
