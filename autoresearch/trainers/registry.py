"""The registry of trainers, and the choice of one for a run. Only the requested trainer is imported."""

from __future__ import annotations

import warnings
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Trainer
from autoresearch.errors import AutoresearchError, BlueprintError, UsageError
from autoresearch.plugins import PluginGroup, PluginWarning

if TYPE_CHECKING:
    from autoresearch.core.blueprint.model import Blueprint
    from autoresearch.core.shell import ShellReading

_REFERENCES = {
    "tinygrpo": "autoresearch.trainers.tinygrpo:TinyGrpo",
    "agentjet_swarm": "autoresearch.agentjet.swarm_trainer:AgentJetSwarm",
    "agentjet": "autoresearch.trainers.agentjet:AgentJet",
    "nemo_rl": "autoresearch.trainers.nemo_rl:NemoRl",
    "openrlhf": "autoresearch.trainers.openrlhf:OpenRlhf",
    "slime": "autoresearch.trainers.slime:Slime",
    "trl": "autoresearch.trainers.trl:Trl",
    "verl": "autoresearch.trainers.verl:Verl",
    "generic": "autoresearch.trainers.generic:Generic",
}
"""Name -> `module:class`, as in an entry point, so that a trainer may live in a room, or a package, of its own."""

_WORDS = {
    "tinygrpo": ("tinygrpo",),
    "agentjet_swarm": ("ajet", "AJET", "agent_roll", "auto_train"),
    "agentjet": ("ajet",),
    "nemo_rl": ("nemo_rl", "nrl-k8s", "examples/"),
    "openrlhf": ("openrlhf",),
    "slime": ("slime", "train.py", "train_async.py"),
    "trl": ("trl", "transformers", "examples/scripts/", ".log_metrics("),
    "verl": ("verl", "main_ppo", "recipe"),
}
"""What a command or a program must hold for this trainer to know it; without any of it, the trainer is not imported."""

NAMES = tuple(_REFERENCES)
"""Every trainer of ours, the most specific first; the last recognises no command and is what remains."""

PLUGINS = PluginGroup("trainers", NAMES)


def by_name(name: str, lines: tuple[str, ...] = (), metrics: tuple[str, ...] = ()) -> Trainer:
    """The trainer with this name (case-insensitive); raises UsageError, listing the known names, for any other.

    Only the generic trainer uses `lines`, which the blueprint declares (see `trainers.generic`), and `metrics`, the
    names that its objective and its constraints need.
    """
    key = name.strip().lower()
    if (lines or metrics) and key == NAMES[-1]:
        from autoresearch.trainers.generic import Generic

        return Generic(lines=lines, metrics=metrics)
    if key in _REFERENCES:
        module, _, attribute = _REFERENCES[key].partition(":")
        trainer: Trainer = getattr(import_module(module), attribute)()
        return trainer
    if (plugin := PLUGINS.get(key)) is not None:
        made: Trainer = plugin
        return made
    known = ", ".join([*NAMES, *PLUGINS.names()])
    raise UsageError(f"there is no trainer {name!r}", hint=f"known trainers: {known}", code="unknown_trainer")


def of_run(spec: RunSpec) -> Trainer:
    """The trainer of a run, with what its blueprint declares.

    Where it was a plug-in that cannot be used here, its log is read as that of an unknown trainer, with a warning.
    """
    metrics = spec.metric_keys
    try:
        return by_name(spec.trainer, spec.lines, metrics)
    except AutoresearchError as error:
        if (origin := spec.plugins.get(f"trainers.{spec.trainer}")) is None:
            raise
        missing = f"the trainer {spec.trainer} is a plug-in of {origin}, and {error.message}"
        warnings.warn(f"{missing}; the log of {spec.run} is read without it", PluginWarning, stacklevel=2)
        return by_name(NAMES[-1], spec.lines, metrics)


def every() -> tuple[Trainer, ...]:
    """All trainers: ours in the order of `NAMES`, then the plug-ins that can be used."""
    return (*map(by_name, NAMES), *PLUGINS.usable().values())


def choose(
    name: str, command: str, lines: tuple[str, ...] = (), *, shell_reading: ShellReading | None = None
) -> Trainer:
    """The named trainer, else the first that recognises the command, else the one that its program imports.

    The generic one, where there is none. shell_reading: the reading of the command with its scripts and programs.

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
    names = (*NAMES[:-1], *PLUGINS.usable())
    if shell_reading is not None:
        started = next((name for name in names if shell_reading.trainer(partial(_recognises, name))), None)
        if started is not None:
            return by_name(started)
        texts = [program.text or "" for program in shell_reading.programs]
        found = next((name for name in names if any(_trains(name, text) for text in texts)), None)
        if found is not None:
            return by_name(found)
    return by_name(next((name for name in names if _recognises(name, command)), NAMES[-1]))


def _recognises(name: str, command: str) -> bool:
    """Whether a command starts this trainer; a plug-in that fails at it starts none."""
    if name in _WORDS:
        return _may_know(name, command) and by_name(name).recognises(command)
    return bool(PLUGINS.answer(name, lambda: by_name(name).recognises(command), False))


def _trains(name: str, program: str) -> bool:
    """Whether the text of a Python program trains with this framework."""
    from autoresearch.trainers.framework import Framework

    if name in _WORDS and not _may_know(name, program):
        return False
    trainer = by_name(name)
    return isinstance(trainer, Framework) and trainer.trains(program)


def _may_know(name: str, text: str) -> bool:
    return any(word in text for word in _WORDS[name])


def for_blueprint(blueprint: Blueprint, name: str = "", *, shell_reading: ShellReading | None = None) -> Trainer:
    """The trainer of a blueprint: by this name, else by its notes (the name, or a server), else by its command.

    shell_reading: the reading of its command, see `choose`.
    """
    from autoresearch.trainers import ask

    notes = blueprint.notes
    if not (name := name or notes.trainer):
        ours = () if notes.swarm is None else (by_name("agentjet_swarm"),)  # the only one of ours with a server
        with_server = (*ours, *PLUGINS.usable().values())
        name = next((one.name for one in with_server if ask.server(one).declared_by(notes)), "")
    return choose(name, blueprint.launch_command, notes.lines, shell_reading=shell_reading)
