"""The trainers that there are, and which one a run has. Only the one that is asked for is imported."""

from __future__ import annotations

from autoresearch.core.run.trainer import Trainer
from autoresearch.errors import BlueprintError, UsageError

NAMES = ("tinygrpo", "agentjet_swarm", "agentjet", "nemo_rl", "openrlhf", "slime", "trl", "verl", "generic")
"""Every trainer, the most specific first; the last recognises no command and is what remains."""


def by_name(name: str, lines: tuple[str, ...] = ()) -> Trainer:
    """The trainer of that name; UsageError with the known names for any other.

    `lines`: what a blueprint declares of its lines, see `trainers.declared`; only the generic one reads them.
    """
    match name.strip().lower():
        case "tinygrpo":
            from autoresearch.trainers.tinygrpo import TinyGrpo

            return TinyGrpo()
        case "agentjet_swarm":
            from autoresearch.trainers.agentjet_swarm import AgentJetSwarm

            return AgentJetSwarm()
        case "agentjet":
            from autoresearch.trainers.agentjet import AgentJet

            return AgentJet()
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
            from autoresearch.trainers.generic import Declaring, Generic

            return Declaring(lines=lines) if lines else Generic()
    known = ", ".join(NAMES)
    raise UsageError(f"there is no trainer {name!r}", hint=f"known trainers: {known}", code="unknown_trainer")


def every() -> tuple[Trainer, ...]:
    """All of them, in the order of `NAMES`."""
    return tuple(map(by_name, NAMES))


def choose(name: str, command: str, lines: tuple[str, ...] = ()) -> Trainer:
    """The one that was named, else the first that recognises the command, else the generic one.

    Where lines are declared it is the generic one, too; BlueprintError where another one was named, or for a line
    that cannot be understood.
    """
    if lines:
        if name.strip().lower() not in ("", NAMES[-1]):
            raise BlueprintError(
                f"the notes declare lines, which the trainer {name.strip()} does not need: it knows its own",
                hint="take `step_line:` and `validation_line:` out, or write `- trainer: generic`",
                code="lines_of_a_known_trainer",
            )
        from autoresearch.trainers.declared import declared

        declared(lines)
        return by_name(NAMES[-1], lines)
    if name.strip():
        return by_name(name)
    return next((trainer for trainer in every() if trainer.recognises(command)), by_name(NAMES[-1]))
