"""The limits of a run: the blueprint's, else the project's; a flag overrides both."""

from __future__ import annotations

from autoresearch.core.run.limits import Limits
from autoresearch.lab.resolve.trainer_settings import TrainerSettings
from autoresearch.lab.settings import Settings


def limits_of(trainer_settings: TrainerSettings, settings: Settings) -> Limits:
    """The blueprint's limits, else the project's; a flag overrides both and makes the first step strict.

    If the trainer's steps cannot be recognised, the default limit to the first one counts from the last output.
    """
    blueprint = trainer_settings.resolved.blueprint
    from_flag = {n for n, v in settings.values.items() if v.source.startswith("flag")}
    base = Limits(
        first_step_s=blueprint.first_step_s
        if blueprint.first_step_given
        else settings.seconds("first_step_timeout") or Limits().first_step_s,
        max_s=blueprint.max_time_s if blueprint.max_time_given else settings.seconds("max_time") or Limits().max_s,
        stall_s=settings.seconds("stall_timeout"),
        grace_s=_or(settings.seconds("grace"), Limits().grace_s),
        first_step_cap_s=_or(settings.seconds("first_step_cap"), Limits().first_step_cap_s),
        first_step_since_output=not blueprint.first_step_given and not trainer_settings.steps_known,
    )
    return base.override(
        first_step_s=settings.seconds("first_step_timeout") if "first_step_timeout" in from_flag else None,
        max_s=settings.seconds("max_time") if "max_time" in from_flag else None,
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
