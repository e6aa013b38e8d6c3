"""Reads one log from its beginning, for whoever wants its metrics: by the lines of its trainer, or by their spelling.

The lines of a trainer are read as the Runner reads them live: `runner.line_patterns`, `runner.step_finder`.

STEP and VALIDATION are those of verl's console line, `step:N - key:value - key:value ...`, which several trainers
print (verl/utils/logger/aggregate_logger.py, `concat_dict_to_str`). Values come in three formats: `%.3f` (verl up to
0.4), plain floats (numpy 1) and `np.float64(...)` (numpy 2). A typical line has 3,000 characters and 100 pairs. A
training line may also hold a validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

from autoresearch.core.metrics.signal import NO_STEP, Reading, SignalKind, SignalPattern, readings, step_of

if TYPE_CHECKING:
    from autoresearch.runner.step_finder import FoundLine
    from autoresearch.runner.text import Needles

# Anything may be glued before `step:` but a word (`global_step:`), a quotation mark, and the marks behind which
# verl/workers/reward_manager prints samples. The literal comes first, as re searches for it quickly.
_HEAD = r"step:(?<![\w/'\"`-]step:)" + "".join(
    rf"(?<!\[{mark}\] step:)" for mark in ("prompt", "response", "ground_truth")
)

STEP = SignalPattern(
    SignalKind.STEP,
    rf"{_HEAD}(?P<step>[1-9]\d{{0,9}})(?= - )",
    needles=("step:",),
    metrics=r"^(?:actor|critic|train)/",
)
"""A training step: from 1 on (`step:0` only validates) and with at least one metric of the policy."""

VALIDATION = SignalPattern(
    SignalKind.VALIDATION,
    rf"{_HEAD}(?P<step>\d{{1,10}})(?= - )",
    needles=("val-", "val/", "task_pass_rate@"),  # most steps do not validate
    metrics=r"^(?:val[-/]|task_pass_rate@)",
)
"""A line with validation results, alone or at the end of a training line."""


class LineReader:
    """Reads a log line by line, with state for readings that span several lines.

    needles: every relevant line contains at least one of these texts; (): any line may be relevant. unread: of declared
    lines, named groups that matched no number -> the first such text. summary: what was taken as the step, where nobody
    declared it.
    """

    needles: Sequence[str] = ()
    unread: Mapping[str, str] = {}
    summary = ""

    def line(self, text: str) -> Reading | None:
        """The reading that this line completes, if any; a line has no colours and no prefixes of processes."""
        return None

    def feed(self, piece: bytes) -> list[Reading]:
        """What a piece of whole lines completes, in this order. Readings without a step have NO_STEP."""
        from autoresearch.runner.text import logical_lines

        flat = piece.replace(b"\r", b"\n")
        texts = (text for low, high in self._looked_for.lines(flat) for text in logical_lines(flat[low:high]))
        return [reading for text in texts if (reading := self.line(text)) is not None]

    @cached_property
    def _looked_for(self) -> Needles:
        from autoresearch.runner.text import Needles

        return Needles(map(str.encode, self.needles))

    def so_far(self) -> Sequence[Reading]:
        """What can be said before the end beyond what `feed` returned."""
        return ()

    def end(self) -> Sequence[Reading]:
        """What was still incomplete when the log ended."""
        return ()

    def knows(self, text: str) -> bool:
        """Whether a line, even one that is cut, is probably of a step."""
        return any(needle in text for needle in self.needles)


class KnownLines(LineReader):
    """Reads the lines whose patterns say that they hold metrics.

    bar: matches the progress bar that follows a line without a step and tells it, by groups `n` and `of`.
    """

    def __init__(self, signals: Iterable[SignalPattern], bar: re.Pattern[str] | None = None) -> None:
        from autoresearch.runner.line_patterns import LinePattern

        signals = [signal for signal in signals if signal.metrics or signal.whole]
        self._patterns = [LinePattern.of(signal) for signal in signals]
        self._declared = any(signal.whole for signal in signals)
        needles = dict.fromkeys(needle for signal in signals for needle in signal.needles)
        self.needles = (*needles, *(("%|",) if bar else ())) if all(signal.needles for signal in signals) else ()
        self._bar = bar
        self._of = 0  # total steps, from the first bar
        self._held: Reading | None = None

    @property
    def unread(self) -> dict[str, str]:  # type: ignore[override]
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

    def end(self) -> Sequence[Reading]:
        """The last reading, if no bar followed it."""
        done, self._held = self._held, None
        return () if done is None else (done,)

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


class FoundLines(LineReader):
    """Finds steps and metrics by their spelling, and reads beside them what is declared.

    names: metrics that are read wherever they stand. What was found before a step was certain is told at the end.
    """

    def __init__(self, names: Iterable[str] = (), declared: LineReader | None = None) -> None:
        from autoresearch.runner.step_finder import StepFinder

        self._finder = StepFinder(names)
        self._declared = declared
        self._read: list[Reading] = []  # on declared lines

    @property
    def unread(self) -> Mapping[str, str]:  # type: ignore[override]
        return self._declared.unread if self._declared else {}

    @property
    def summary(self) -> str:  # type: ignore[override]
        return self._finder.summary()

    def line(self, text: str) -> Reading | None:
        """What a declared line says: no step is found on a line alone."""
        return self._declared.line(text) if self._declared else None

    def feed(self, piece: bytes) -> list[Reading]:
        self._finder.feed(piece)
        if self._declared:
            self._read += self._declared.feed(piece)
        return []

    def so_far(self) -> Sequence[Reading]:
        return self._readings(self._finder.take())

    def end(self) -> Sequence[Reading]:
        return self._readings(self._finder.end())

    def knows(self, text: str) -> bool:
        from autoresearch.runner.metric_lines import body, parse

        found = parse(body(text))
        return found is not None and bool(found.steps)

    def _readings(self, found_lines: Iterable[FoundLine]) -> list[Reading]:
        found = [
            replace(reading, ordinal=True) if line.counted else reading
            for line in found_lines
            for reading in readings(line.step, line.metrics)
        ]
        declared, self._read = self._read, []
        return [*found, *declared]


@cache
def _reader() -> KnownLines:
    return KnownLines((STEP, VALIDATION))


def read_step_line(line: str) -> Reading | None:
    """Read a cleaned line; None if it has neither training metrics (from step 1 on) nor a validation."""
    return _reader().line(line) if "step:" in line else None
