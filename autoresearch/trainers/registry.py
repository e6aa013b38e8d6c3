"""The registry of trainers, and the choice of one for a run."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from autoresearch.core.run.hooks import HasServer, NoServer
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Trainer
from autoresearch.errors import AutoresearchError, BlueprintError
from autoresearch.plugins import PluginWarning, Registry

if TYPE_CHECKING:
    from autoresearch.core.blueprint.model import Blueprint
    from autoresearch.core.shell import ShellReading

TRAINERS = Registry(
    "trainers",
    {
        "tinygrpo": "autoresearch.trainers.tinygrpo:TinyGrpo",
        "agentjet_swarm": "autoresearch.agentjet.swarm_trainer:AgentJetSwarm",
        "agentjet": "autoresearch.trainers.agentjet:AgentJet",
        "nemo_rl": "autoresearch.trainers.nemo_rl:NemoRl",
        "openrlhf": "autoresearch.trainers.openrlhf:OpenRlhf",
        "slime": "autoresearch.trainers.slime:Slime",
        "trl": "autoresearch.trainers.trl:Trl",
        "verl": "autoresearch.trainers.verl:Verl",
        "generic": "autoresearch.trainers.generic:Generic",
    },
)

NAMES = tuple(TRAINERS.own)
"""Every trainer of ours, the most specific first; the last recognises no command and is what remains."""

QUIET = {
    "NO_COLOR": "1",
    "LOGURU_COLORIZE": "NO",  # loguru uses colours even when writing to a file
    "RAY_COLOR_PREFIX": "0",
    "RAY_DEDUP_LOGS": "0",
    "HYDRA_FULL_ERROR": "1",
}
"""For every launch, under what the caller and the blueprint say: no colours, no line of Ray's left out, whole
tracebacks. The Runner adds PYTHONUNBUFFERED."""


def by_name(name: str, lines: tuple[str, ...] = (), metrics: tuple[str, ...] = ()) -> Trainer:
    """The trainer with this name (case-insensitive); raises UsageError, listing the known names, for any other.

    Only the generic trainer uses `lines`, which the blueprint declares (see `trainers.generic`), and `metrics`, the
    names that its objective and its constraints need.
    """
    if (lines or metrics) and name.strip().lower() == NAMES[-1]:
        from autoresearch.trainers.generic import Generic

        return Generic(lines=lines, metrics=metrics)
    trainer: Trainer = TRAINERS.get(name)()
    return trainer


def of_run(spec: RunSpec) -> Trainer:
    """The trainer of a run, with what its blueprint declares.

    Where it was a plug-in that cannot be used here, its log is read as that of an unknown trainer, with a warning.
    """
    metrics = spec.metric_keys
    try:
        return by_name(spec.trainer, spec.lines, metrics)
    except AutoresearchError as error:
        said = f"the log of {spec.run} is read without its trainer: {error.message}"
        warnings.warn(said, PluginWarning, stacklevel=2)
        return by_name(NAMES[-1], spec.lines, metrics)


def every() -> tuple[Trainer, ...]:
    """All trainers of ours in the order of `NAMES`."""
    return tuple(map(by_name, NAMES))


def choose(name: str, shell_reading: ShellReading, lines: tuple[str, ...] = ()) -> Trainer:
    """The named trainer, else the first that recognises the command, else the one that its program imports.

    The generic one, where there is none. shell_reading: of the command with its scripts and programs.

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
        from autoresearch.trainers.generic import declared

        declared(lines)
        return by_name(NAMES[-1], lines)
    if name.strip():
        return by_name(name)
    from autoresearch.trainers.framework import Framework

    trainers = every()[:-1]  # a plug-in is used where it is named
    for trainer in trainers:
        if shell_reading.trainer(trainer.recognises):
            return trainer
    for trainer in trainers:
        if isinstance(trainer, Framework) and any(trainer.trains(one.text) for one in shell_reading.programs):
            return trainer
    return next((one for one in trainers if one.recognises(shell_reading.text)), by_name(NAMES[-1]))


def for_blueprint(blueprint: Blueprint, shell_reading: ShellReading, name: str = "") -> Trainer:
    """The trainer of a blueprint: by this name, else by its notes (the name, or a server), else by its command."""
    notes = blueprint.notes
    name = name or notes.trainer or ("agentjet_swarm" if notes.swarm is not None else "")
    return choose(name, shell_reading, notes.lines)


def server(trainer: Trainer) -> HasServer:
    """The hooks of a server beside the run; those of a trainer that needs none do nothing."""
    return trainer if isinstance(trainer, HasServer) else NoServer(trainer.name)
