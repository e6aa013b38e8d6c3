"""Signals: events and metrics recognised in a line of a trainer's output; which names belong to training, which not."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from autoresearch.core.text.regex import later


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
