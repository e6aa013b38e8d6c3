"""Proposers by name."""

from __future__ import annotations

from pathlib import Path

from autoresearch.core.campaign.proposer import Proposer, ProposerInputs
from autoresearch.errors import NotFoundError
from autoresearch.plugins import Registry
from autoresearch.proposers.queue import Queue
from autoresearch.proposers.tpe import GridSweep, RandomSweep, Tpe, need_optuna


def check_packages(name: str) -> None:
    """Refuse a proposer whose packages are missing, or that is a broken plug-in, before anything runs.

    Raises EnvironmentUnusable.
    """
    PROPOSERS.get(name)
    if name == "tpe":
        need_optuna()


def proposer(name: str, inputs: ProposerInputs) -> Proposer:
    """The proposer of that name; nothing is written before its first ask.

    Raises UsageError for an unknown name; NotFoundError for a queue that is not there any more; EnvironmentUnusable
    where optuna is missing. A space that cannot be searched is refused when the campaign is resolved.
    """
    made: Proposer = PROPOSERS.get(name)(inputs)
    return made


def _queue(inputs: ProposerInputs) -> Queue:
    path = Path(inputs.queue)
    if not path.exists():
        hint = "make it, empty if need be: ideas can be added while the campaign runs"
        raise NotFoundError(f"{path}: there is no such queue", hint=hint, code="no_queue")
    return Queue(path, inputs.read_yaml, inputs.lines)


# Each a class, or a function: ProposerInputs -> Proposer.
PROPOSERS = Registry("proposers", {"queue": _queue, "grid": GridSweep, "random": RandomSweep, "tpe": Tpe})
NAMES = tuple(PROPOSERS.own)
