"""What the lines of a log say: signals and readings of metrics, which names belong to training, and who reads a log.

A log is read from its beginning, by the lines of its trainer or by their spelling, as the Runner reads it live:
`runner.line_patterns`, `runner.step_finder`.

VERL_STEP and VERL_VALIDATION are those of verl's console line, `step:N - key:value - key:value ...`, which several
trainers print (verl/utils/logger/aggregate_logger.py, `concat_dict_to_str`). Values come in three formats: `%.3f`
(verl up to 0.4), plain floats (numpy 1) and `np.float64(...)` (numpy 2). A typical line has 3,000 characters and 100
pairs. A training line may also hold a validation.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

from autoresearch.core.text.regex import later
from autoresearch.runner.metric_lines import same_name, value_of

if TYPE_CHECKING:
    from autoresearch.runner.step_finder import FoundLine, StepFinder
    from autoresearch.runner.text import Needles


class SignalKind(StrEnum):
    """What kind of event a line reports, for the limits and the monitor."""

    STEP = "step"  # a training-metric event; the first one is the first step
    VALIDATION = "validation"  # a validation result
    PROGRESS = "progress"  # boot or initial validation makes progress: suspends the first-step clock
    READY = "ready"  # the boot is over: the first-step clock runs again
    ERROR = "error"  # the first line of a traceback, or a known fatal message
    NAN = "nan"  # a metric has become NaN


@dataclass(frozen=True, slots=True)
class SignalPattern:
    """One bytes regex for the Runner, written as text (latin-1 safe), multi-line mode, no leading `.*`.

    Named groups with a meaning: `step` (integer), `kl` (number), `text` (shown to users), `kind` (for an ERROR: the
    stable code written to the exit record if nothing more specific is found).
    `hold_s`: seconds for which a PROGRESS signal suspends the first-step clock.
    `needles`: every matching line contains at least one of these texts, in the same case; to save time, the regex is
    applied only to such lines. () applies it to every line.
    `metrics`: a regex of names; the pairs behind the match are read, and it counts only if one of them has such a name.
    `whole`: the pairs of the whole line are read, and the named groups without a meaning are metrics.
    The regex may begin at any place of a line without colours and labels of processes.
    """

    kind: SignalKind
    pattern: str
    hold_s: float = 0.0
    needles: tuple[str, ...] = ()
    metrics: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """Metrics that were printed or written for one step.

    `step` is the trainer's own step; if it prints none, the ordinal, and `ordinal` is true. NaN and infinite values are
    kept.
    """

    kind: SignalKind  # STEP or VALIDATION
    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    ordinal: bool = False


TRAINING_PREFIXES = ("actor/", "critic/", "train/")
"""Prefixes of metrics that only a training step has, in a verl line that may also be a validation."""

REWARD_KEYS = (
    *("critic/rewards/mean", "critic/score/mean"),  # verl, AgentJet, tinygrpo
    "train/reward",  # NeMo-RL
    "rollout/raw_reward",  # slime
    "reward",  # TRL, OpenRLHF
)
"""Names of the mean reward of a training step's answers, one per framework."""

GRADIENT_KEYS = ("actor/grad_norm", "train/grad_norm", "actor_grad_norm", "grad_norm")
"""Names of the norm of the policy's gradient."""

STEP_KEYS = (
    "step",
    "global_step",
    "training/global_step",
    "train/global_step",
    "global_steps",
    "train/step",
    "_step",
    "iteration",
)
"""Names of the step in dicts and JSON objects, the most usual first."""

NO_STEP = -1
"""The step of a line that does not name one; the reader of the whole file replaces it by the line's ordinal."""

_VALIDATION_PREFIXES = (
    *("val-", "val/", "val_", "eval/", "eval_", "validation/", "validation-"),
    "task_pass_rate@",
)
_ANY_VALIDATION = later("\n(?:" + "|".join(map(re.escape, _VALIDATION_PREFIXES)) + ")")
_BESIDE_VALIDATION = (
    "global_steps",
    "pass_n",
    "total_tasks",
    "num_all_success_tasks",
    "mean_reward",
    "std_reward",
)
_TRAINING_WORDS = ("loss", "grad_norm", "reward", "entropy", "kl")


@lru_cache(maxsize=1 << 14)
def is_validation(key: str) -> bool:
    """Whether this name alone proves a validation metric."""
    return key.startswith(_VALIDATION_PREFIXES)


@lru_cache(maxsize=1 << 14)
def is_training(key: str) -> bool:
    """Whether this name proves a training step; names of timings and counters do not."""
    if key.startswith(TRAINING_PREFIXES):
        return True
    return not key.startswith(("timing", "perf/")) and any(word in key for word in _TRAINING_WORDS)


def step_of(metrics: Mapping[str, float]) -> int | None:
    """The step that these metrics name; None if they name none that is finite and at least 0."""
    for key in STEP_KEYS:
        if key in metrics and math.isfinite(value := metrics[key]) and value >= 0:
            return int(value)
    return None


def numbers(mapping: Mapping[str, object], *, strings: bool = False) -> dict[str, float]:
    """The numeric entries of a mapping; None becomes NaN, as in verl's file logger and pandas.

    `strings`: numbers in quotes count too (transformers 5 prints them so). Booleans are never numbers.
    """
    floats: dict[str, float] = {}
    for key, value in mapping.items():
        if type(value) is float:  # nearly all are
            floats[key] = value
        elif value is None:
            floats[key] = math.nan
        elif isinstance(value, str):
            read = value_of(value) if strings else None
            if read is not None:
                floats[key] = read
        elif isinstance(value, int | float) and not isinstance(value, bool):
            with contextlib.suppress(OverflowError):  # an integer beyond 1e308
                floats[key] = float(value)
    return floats


def readings(step: int, metrics: Mapping[str, float]) -> tuple[Reading, ...]:
    """One line's metrics as readings: verl adds validation to the training line, so one line can be two."""
    if not metrics:
        return ()
    if not _ANY_VALIDATION.search("\n".join(["", *metrics])):
        return (Reading(SignalKind.STEP, step, metrics),)
    metrics = dict(metrics.items())  # of pairs as they were printed it makes numbers, each time
    validation = {k: v for k, v in metrics.items() if is_validation(k)}
    beside = {k: v for k, v in metrics.items() if k in _BESIDE_VALIDATION or k.startswith("num_pass_n_tasks")}
    rest = {k: v for k, v in metrics.items() if k not in validation and k not in beside}
    if not any(is_training(key) for key in rest):
        return (Reading(SignalKind.VALIDATION, step, metrics),)
    return (Reading(SignalKind.STEP, step, rest), Reading(SignalKind.VALIDATION, step, beside | validation))


# Anything may be glued before `step:` but a word (`global_step:`), a quotation mark, and the marks behind which
# verl/workers/reward_manager prints samples. The literal comes first, as re searches for it quickly.
_HEAD = r"step:(?<![\w/'\"`-]step:)" + "".join(
    rf"(?<!\[{mark}\] step:)" for mark in ("prompt", "response", "ground_truth")
)

VERL_STEP = SignalPattern(
    SignalKind.STEP,
    rf"{_HEAD}(?P<step>[1-9]\d{{0,9}})(?= - )",
    needles=("step:",),
    metrics=r"^(?:actor|critic|train)/",
)
"""A training step: from 1 on (`step:0` only validates) and with at least one metric of the policy."""

VERL_VALIDATION = SignalPattern(
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


class KnownLines(LineReader):
    """Reads the lines whose patterns say that they hold metrics.

    bar: matches the progress bar that follows a line without a step and tells it, by groups `n` and `of`. finder: finds
    steps and metrics by their spelling beside these lines; what it finds before a step is certain is told at the end.
    """

    def __init__(
        self,
        signals: Iterable[SignalPattern],
        bar: re.Pattern[str] | None = None,
        finder: StepFinder | None = None,
    ) -> None:
        from autoresearch.runner.line_patterns import LinePattern

        signals = [signal for signal in signals if signal.metrics or signal.whole]
        self._patterns = [LinePattern.of(signal) for signal in signals]
        self._declared = any(signal.whole for signal in signals)
        needles = dict.fromkeys(needle for signal in signals for needle in signal.needles)
        self.needles = (*needles, *(("%|",) if bar else ())) if all(signal.needles for signal in signals) else ()
        self._bar, self._finder = bar, finder
        self._beside: list[Reading] = []  # on these lines, until the finder is asked
        self._of = 0  # total steps, from the first bar
        self._held: Reading | None = None

    @property
    def unread(self) -> dict[str, str]:  # type: ignore[override]
        return {name: text for one in self._patterns for name, text in one.unread.items()}

    @property
    def summary(self) -> str:  # type: ignore[override]
        return self._finder.summary() if self._finder else ""

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

    def feed(self, piece: bytes) -> list[Reading]:
        known = super().feed(piece) if self._patterns else []
        if self._finder is None:
            return known
        self._finder.feed(piece)
        self._beside += known
        return []

    def so_far(self) -> Sequence[Reading]:
        return self._placed(self._finder.take()) if self._finder else ()

    def end(self) -> Sequence[Reading]:
        """The last reading, if no bar followed it, or what the finder tells at the end."""
        done, self._held = self._held, None
        return self._placed(self._finder.end()) if self._finder else () if done is None else (done,)

    def _placed(self, found_lines: Iterable[FoundLine]) -> list[Reading]:
        found = [
            replace(reading, ordinal=True) if line.counted else reading
            for line in found_lines
            for reading in readings(line.step, line.metrics)
        ]
        beside, self._beside = self._beside, []
        return [*found, *beside]

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


_NUMBER = later(r"\d")
_BEGINNING = 400  # characters of a line that are compared: metrics are printed near its start


def nearest_lines(names: Sequence[str], lines: Iterable[str], count: int = 3) -> list[str]:
    """The lines that hold the most of one of these names in a row, whatever separates its letters.

    Of lines that differ only in their numbers, the last one is used. Ties are broken in favour of lines that contain
    a number, then of later lines.
    """
    from difflib import SequenceMatcher  # for messages only

    bare_names = [bare for bare in map(same_name, names) if bare]

    def share(line: str) -> float:
        text = same_name(line[:_BEGINNING])
        runs = ((SequenceMatcher(None, text, one, autojunk=False).find_longest_match().size, one) for one in bare_names)
        return max((size / len(one) for size, one in runs), default=0.0)

    last = {_NUMBER.sub("0", line): (at, line) for at, line in enumerate(lines)}
    ranked = sorted(((share(line), bool(_NUMBER.search(line)), at, line) for at, line in last.values()), reverse=True)
    return [line for _, _, _, line in ranked[:count]]


@cache
def _reader() -> KnownLines:
    return KnownLines((VERL_STEP, VERL_VALIDATION))


def read_step_line(line: str) -> Reading | None:
    """Read a cleaned line; None if it has neither training metrics (from step 1 on) nor a validation."""
    return _reader().line(line) if "step:" in line else None
