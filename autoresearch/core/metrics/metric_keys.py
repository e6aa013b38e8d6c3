"""Metric keys: which names belong to training, which to validation, and which one is the KL."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.text.regex import later

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
