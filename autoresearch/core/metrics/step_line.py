"""verl's console line, `step:N - key:value - key:value ...`, which several trainers print.

Written by verl/utils/logger/aggregate_logger.py (`concat_dict_to_str`). Values come in three formats: `%.3f` (verl up
to 0.4), plain floats (numpy 1) and `np.float64(...)` (numpy 2). A typical line has 3,000 characters and 100 pairs. A
training line may also hold a validation.
"""

from __future__ import annotations

from autoresearch.core.metrics.signal import SignalKind, SignalPattern

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
