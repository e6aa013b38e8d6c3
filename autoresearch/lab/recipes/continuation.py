"""A run that goes on from the last checkpoint of one that the machine ended."""

from __future__ import annotations

import re
from pathlib import Path

from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.lab.resolve.trainer_settings import there


def can_go_on(trainer: Trainer, recipe: Recipe) -> bool:
    """Whether a run with this recipe, in a directory of its own, leaves something that another can go on from."""
    own = {output.key: f"/runs/{output.name}" if output.name else "run" for output in trainer.outputs(recipe)}
    return trainer.continuation({**recipe, **own}) is not None


def settings_from(trainer: Trainer, recipe: Recipe) -> tuple[dict[str, object], str]:
    """The settings that go on from a run with this recipe, and its last checkpoint; {} and "" if it left none."""
    way = trainer.continuation(recipe)
    saved = sorted(there(Path(way.checkpoints)), key=_natural) if way else []
    if way is None or not saved:
        return {}, ""
    named: dict[str, object] = {way.checkpoint_key: str(saved[-1])} if way.checkpoint_key else {}
    return {**way.settings, **named}, str(saved[-1])


def _natural(path: Path) -> list[tuple[int, str]]:
    """step_9 before step_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]
