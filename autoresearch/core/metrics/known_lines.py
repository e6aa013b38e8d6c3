"""Reads a whole log by the patterns of its trainer, as the Runner reads it live: `runner.line_patterns`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from autoresearch.core.metrics.metric_keys import NO_STEP, readings, step_of
from autoresearch.core.metrics.signal import LineReader, Reading, SignalKind, SignalPattern
from autoresearch.core.metrics.step_line import STEP, VALIDATION
from autoresearch.runner.line_patterns import LinePattern


class KnownLines(LineReader):
    """Reads the lines whose patterns say that they hold metrics.

    bar: matches the progress bar that follows a line without a step and tells it, by groups `n` and `of`.
    """

    needles: tuple[str, ...] = ()

    def __init__(self, signals: Iterable[SignalPattern], bar: re.Pattern[str] | None = None) -> None:
        signals = [signal for signal in signals if signal.metrics or signal.whole]
        self._patterns = [LinePattern.of(signal) for signal in signals]
        self._declared = any(signal.whole for signal in signals)
        needles = dict.fromkeys(needle for signal in signals for needle in signal.needles)
        self.needles = (*needles, *(("%|",) if bar else ())) if all(signal.needles for signal in signals) else ()
        self._bar = bar
        self._of = 0  # total steps, from the first bar
        self._held: Reading | None = None

    @property
    def unread(self) -> dict[str, str]:
        """Of declared lines: named groups that matched no number -> the first such text."""
        return {name: text for one in self._patterns for name, text in one.unread.items()}

    def line(self, text: str) -> Reading | None:
        """The reading of a line; of one without a step that a bar tells, the reading before it."""
        reading = self._read(text)
        if self._bar is None:
            return reading
        if reading is not None and reading.step == NO_STEP and (step := step_of(reading.metrics)) is not None:
            reading = Reading(reading.kind, step, reading.metrics)
        if reading is not None:
            done = self._held
            (self._held, *_) = readings(reading.step, reading.metrics)  # TRL's PPO: its val/ratio is of the critic
            return done
        bar = self._bar.match(text)
        return self._at(int(bar["n"]), int(bar["of"])) if bar else None

    def end(self) -> Reading | None:
        """The last reading, if no bar followed it."""
        done, self._held = self._held, None
        return done

    def _at(self, n: int, of: int) -> Reading | None:
        self._of = self._of or of
        held = self._held
        if held is None or held.step != NO_STEP or of != self._of:  # an evaluation has its own bar
            return None
        if n == 0 and held.kind is SignalKind.STEP:  # only an evaluation can come before the first step
            return None
        self._held = None
        return Reading(held.kind, n, held.metrics)

    def _read(self, text: str) -> Reading | None:
        """Of several on one line, the last. One that also validates is a STEP with all metrics.

        Metrics beside the steps, such as a rollout's, are progress for the Runner, and of training here.
        """
        raw = text.encode("utf-8", "replace")
        signals = [signal for one in self._patterns for signal in one.read(raw)]
        found = [signal for signal in signals if signal.metrics or (self._declared and signal.kind != "nan")]
        if not found:
            return None
        last = max(found, key=lambda signal: signal.at)
        metrics = {name: value for name, value in last.metrics.items() if name != "train/step"}  # slime's, once more
        kind = SignalKind.VALIDATION if last.kind == SignalKind.VALIDATION else SignalKind.STEP
        if not metrics and not self._declared:
            return None
        return Reading(kind, NO_STEP if last.step is None else last.step, metrics)


@cache
def _reader() -> KnownLines:
    return KnownLines((STEP, VALIDATION))


def read_step_line(line: str) -> Reading | None:
    """Read a cleaned line; None if it has neither training metrics (from step 1 on) nor a validation."""
    return _reader().line(line) if "step:" in line else None
