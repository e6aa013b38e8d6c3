"""Checks of a NeMo-RL recipe, and the time limit that it may set itself."""

from __future__ import annotations

from collections.abc import Iterator

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.run.recipe_keys import look_up, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Recipe
from autoresearch.core.text.regex import later
from autoresearch.trainers.framework import error, warning

_LIMIT = later(r"(\d{1,4}):(\d{1,4}):(\d{1,6}):(\d{1,9})")
_LOGGERS = ("wandb", "tensorboard", "swanlab", "mlflow")


def seconds(value: object) -> float | None:
    """Parse `DD:HH:MM:SS` into seconds; None for no limit and for any other format.

    YAML 1.1 reads an unquoted 10:03:45:00 (but not 00:03:45:00) as a base-60 integer.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        digits = [value // 216000, value // 3600 % 60, value // 60 % 60, value % 60]
    elif isinstance(value, str) and (found := _LIMIT.fullmatch(value.strip())):
        digits = [int(part) for part in found.groups()]
    else:
        return None
    days, hours, minutes, rest = digits
    return float(days * 86400 + hours * 3600 + minutes * 60 + rest)


def lint(recipe: Recipe, algorithm: str) -> tuple[Finding, ...]:
    """Unmeasured, silently resumed or self-contradicting runs; `algorithm` is the recipe's section or ""."""
    return (*_metrics(recipe, algorithm), *_limit(recipe), *_stop(recipe, algorithm), *_resume(recipe))


def _metrics(recipe: Recipe, algorithm: str) -> Iterator[Finding]:
    if look_up(recipe, "logger") is not None and not any(true_at(recipe, f"logger.{k}_enabled") for k in _LOGGERS):
        message = "all loggers are off: the console rounds to four digits and never prints the reference KL"
        yield warning("no_structured_logger", message, "set logger.tensorboard_enabled: true")
    name = text_of(recipe, "checkpointing.metric_name")
    if name and not name.startswith(("val:", "train:")):
        message = f"checkpointing.metric_name {name!r} begins with neither val: nor train:, which NeMo-RL asserts"
        hint = "write val:accuracy, val:val_loss, val:validation-default_loss or train:reward"
        yield warning("metric_name_prefix", message, hint)
    if look_up(recipe, "async_rl") is not None:
        yield from _controller(recipe, algorithm, name)
        return
    period = whole_number(recipe, f"{algorithm}.val_period") if algorithm else None
    late = any(true_at(recipe, f"{algorithm}.{key}") for key in ("val_at_start", "val_at_end"))
    if name.startswith("val:") and period is not None and period <= 0 and not late:
        message = f"{algorithm}.val_period is {period}: {name} is never measured"
        yield warning("no_validation", message, "set a val_period that divides max_num_steps, or val_at_end: true")


def _controller(recipe: Recipe, algorithm: str, name: str) -> Iterator[Finding]:
    """The single controller refuses to start if validation is requested (single_controller_utils/config.py)."""
    if name.startswith("val:") and look_up(recipe, "checkpointing.enabled") is not False:
        message = f"checkpointing.metric_name is {name}, but the single controller has no validation and refuses it"
        yield error("controller_validates", message, "write train:reward")
    asked = [key for key in ("val_at_start", "val_at_end") if true_at(recipe, f"{algorithm}.{key}")]
    if asked or (whole_number(recipe, f"{algorithm}.val_period") or 0) > 0:
        message = "the single controller has no validation and refuses to start with one"
        hint = f"set {algorithm}.val_period: 0 and val_at_start, val_at_end: false"
        yield error("controller_validates", message, hint)


def _limit(recipe: Recipe) -> Iterator[Finding]:
    value = look_up(recipe, "checkpointing.checkpoint_must_save_by")
    if value is None:
        return
    if seconds(value) is None:
        message = f"checkpointing.checkpoint_must_save_by {value!r} is not of the form DD:HH:MM:SS"
        yield error("save_by_format", message, 'write "00:03:45:00" for 3 hours and 45 minutes')
    elif isinstance(value, int):
        message = "checkpointing.checkpoint_must_save_by is read as one number, for want of quotes"
        yield warning("save_by_unquoted", message, 'write it in quotes: "10:03:45:00"')
    if look_up(recipe, "checkpointing.enabled") is False:
        message = "checkpoint_must_save_by ends the run, but checkpointing.enabled is false: nothing is saved"
        yield warning("save_by_without_checkpoints", message, "set checkpointing.enabled: true, or take the limit out")


def _stop(recipe: Recipe, algorithm: str) -> Iterator[Finding]:
    metric = text_of(recipe, f"{algorithm}.stop_at_validation_metric") if algorithm else ""
    if metric and look_up(recipe, f"{algorithm}.stop_at_validation_threshold") is None:
        key = f"{algorithm}.stop_at_validation"
        message = f"{key}_metric is {metric}, but no threshold is given: NeMo-RL refuses to start"
        yield error("no_stop_threshold", message, f"set {key}_threshold")


def _resume(recipe: Recipe) -> Iterator[Finding]:
    directory = text_of(recipe, "checkpointing.checkpoint_dir")
    shared = directory and not directory.startswith("/")  # by all runs in this checkout
    if shared and look_up(recipe, "checkpointing.enabled") is not False:
        key = "checkpointing.checkpoint_dir"
        message = f"{key} {directory} is shared by all runs here: a step_N in it is resumed silently"
        hint = "name an absolute directory of this run alone; a campaign does so by itself"
        yield warning("silent_resume", message, hint)
