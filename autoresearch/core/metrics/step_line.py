"""verl's console line, `step:N - key:value - key:value ...`, which several trainers print.

Written by verl/utils/logger/aggregate_logger.py (`concat_dict_to_str`). Values come in three formats: `%.3f` (verl up
to 0.4), plain floats (numpy 1) and `np.float64(...)` (numpy 2). A typical line has 3,000 characters and 100 pairs. A
training line may also hold a validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from autoresearch.core.metrics.metric_keys import NO_STEP, renamed
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.run.trainer import LogReader
from autoresearch.runner.dashed_pairs import LineTemplates
from autoresearch.runner.line_patterns import LinePattern, pairs_of_part, step_of

# Reads lines whose heads are known, as the Runner reads them: `runner.line_patterns`.


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


# Allowed right before `step:`: nothing, white space, or the closing bracket of a progress bar or a prefix; not the
# marks behind which verl/workers/reward_manager prints samples. `global_step:` must not match. The literal comes first,
# as re searches for it quickly.
_HEAD = r"step:(?:(?<=^step:)|(?<=[ \t\])]step:))" + "".join(
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
    needles=("val-", "val/", "task_pass_rate@", "TGC@"),  # most steps do not validate
    metrics=r"^(?:val[-/]|task_pass_rate@|TGC@)",
)
"""A line with validation results, alone or at the end of a training line."""


@cache
def _reader() -> KnownLines:
    return KnownLines((STEP, VALIDATION))


def read(line: str) -> Reading | None:
    """Read a cleaned line; None if it has neither training metrics (from step 1 on) nor a validation."""
    return _reader().line(line) if "step:" in line else None
