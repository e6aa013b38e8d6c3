"""The registry of trainers, and the choice of one for a run. Only the requested trainer is imported."""

from __future__ import annotations

from autoresearch.core.run.trainer import Trainer
from autoresearch.errors import BlueprintError, UsageError

NAMES = ("tinygrpo", "agentjet_swarm", "agentjet", "nemo_rl", "openrlhf", "slime", "trl", "verl", "generic")
"""Every trainer, the most specific first; the last recognises no command and is what remains."""


def by_name(name: str, lines: tuple[str, ...] = ()) -> Trainer:
    """The trainer with this name (case-insensitive); raises UsageError, listing the known names, for any other.

    `lines`: the lines that the blueprint declares, see `trainers.declared`; only the generic trainer uses them.
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
    """All trainers, in the order of `NAMES`."""
    return tuple(map(by_name, NAMES))


def choose(name: str, command: str, lines: tuple[str, ...] = ()) -> Trainer:
    """The named trainer, else the first that recognises the command, else the generic one.

    Declared lines also select the generic trainer; BlueprintError if another trainer is named, or if a declared line is
    invalid.
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
