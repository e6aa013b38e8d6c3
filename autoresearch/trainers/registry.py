"""The trainers that there are, and which one a run has. Only the one that is asked for is imported."""

from __future__ import annotations

from autoresearch.core.trainer import Trainer
from autoresearch.errors import UsageError

NAMES = ("tinygrpo", "agentjet_swarm", "nemo_rl", "openrlhf", "slime", "trl", "verl", "generic")
"""Every trainer, the most specific first; the last recognises no command and is what remains."""


def by_name(name: str) -> Trainer:
    """The trainer of that name; UsageError with the known names for any other."""
    match name.strip().lower():
        case "tinygrpo":
            from autoresearch.trainers.tinygrpo import TinyGrpo

            return TinyGrpo()
        case "agentjet_swarm":
            from autoresearch.trainers.agentjet_swarm import AgentJetSwarm

            return AgentJetSwarm()
        case "nemo_rl":
            from autoresearch.trainers.nemo_rl import NemoRl

            return NemoRl()
        case "openrlhf":
            from autoresearch.trainers.openrlhf import OpenRlhf

            return OpenRlhf()
        case "slime":
            from autoresearch.trainers.slime import Slime

            return Slime()
        case "trl":
            from autoresearch.trainers.trl import Trl

            return Trl()
        case "verl":
            from autoresearch.trainers.verl import Verl

            return Verl()
        case "generic":
            from autoresearch.trainers.generic import Generic

            return Generic()
    known = ", ".join(NAMES)
    raise UsageError(f"there is no trainer {name!r}", hint=f"known trainers: {known}", code="unknown_trainer")


def every() -> tuple[Trainer, ...]:
    """All of them, in the order of `NAMES`."""
    return tuple(map(by_name, NAMES))


def choose(name: str, command: str) -> Trainer:
    """The one that was named, else the first that recognises the command, else the generic one."""
    if name.strip():
        return by_name(name)
    return next((trainer for trainer in every() if trainer.recognises(command)), by_name(NAMES[-1]))
