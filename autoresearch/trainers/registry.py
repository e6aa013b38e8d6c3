"""The trainers that there are, and which one a run has."""

from __future__ import annotations

from autoresearch.core.trainer import Trainer
from autoresearch.errors import UsageError
from autoresearch.trainers.generic import Generic
from autoresearch.trainers.tinygrpo import TinyGrpo
from autoresearch.trainers.verl import Verl

GENERIC = Generic()

ALL: tuple[Trainer, ...] = (TinyGrpo(), Verl(), GENERIC)
"""Every trainer, the most specific first."""


def by_name(name: str) -> Trainer:
    """The trainer of that name; UsageError with the known names for any other."""
    for trainer in ALL:
        if trainer.name == name.strip().lower():
            return trainer
    known = ", ".join(trainer.name for trainer in ALL)
    raise UsageError(f"there is no trainer {name!r}", hint=f"known trainers: {known}", code="unknown_trainer")


def choose(name: str, command: str) -> Trainer:
    """The one that was named, else the first that recognises the command, else the generic one."""
    if name.strip():
        return by_name(name)
    return next((trainer for trainer in ALL if trainer.recognises(command)), GENERIC)
