"""Proposers by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.core.campaign.proposer import Proposer
from autoresearch.core.campaign.space import Space
from autoresearch.core.metrics.objective import Objective
from autoresearch.errors import EnvironmentUnusable, NotFoundError, UsageError
from autoresearch.plugins import PluginGroup
from autoresearch.proposers.queue import Lines, Queue, ReadYaml

NAMES = ("queue", "grid", "random", "tpe")


@dataclass(frozen=True, slots=True)
class ProposerInputs:
    """All that a proposer may ask of a campaign; what a proposer does not need may be left out."""

    objective: Objective
    read_yaml: ReadYaml
    lines: Lines = lambda data: {}
    space: Space | None = None
    queue: Path | None = None  # a folder of blueprints or a YAML list
    baseline: Mapping[str, object] = field(default_factory=dict)  # the recipe's own values, nested or dotted
    seed: int = 0


# A plug-in is a class, or a function: ProposerInputs -> Proposer.
PLUGINS = PluginGroup("proposers", (*NAMES, "agent", "hybrid"), made=False)


def check_packages(name: str) -> None:
    """Refuse a proposer whose packages are missing, or that is a broken plug-in, before anything runs.

    Raises EnvironmentUnusable.
    """
    from autoresearch.proposers.tpe import need_optuna

    if name == "tpe":
        need_optuna()
    elif name not in NAMES:
        PLUGINS.get(name)


def proposer(name: str, inputs: ProposerInputs) -> Proposer:
    """The proposer of that name; nothing is written before its first ask.

    Raises UsageError for an unknown name; NotFoundError for a queue that is not there any more; EnvironmentUnusable
    where optuna is missing. A space that cannot be searched is refused when the campaign is resolved.
    """
    from autoresearch.proposers.tpe import GridSweep, RandomSweep, Tpe

    if name not in NAMES:
        if (make := PLUGINS.get(name)) is not None:
            return _of_plugin(name, make(inputs))
        known = (*NAMES, *PLUGINS.names())
        import difflib

        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        raise UsageError(f"there is no proposer {name!r}", hint=hint, code="unknown_proposer")
    if name == "queue":
        return _queue(inputs)
    assert inputs.space is not None, name
    if name == "grid":
        return GridSweep(inputs.space, inputs.baseline)
    if name == "random":
        return RandomSweep(inputs.space, inputs.baseline, inputs.seed)
    return Tpe(inputs.space, inputs.objective, baseline=inputs.baseline, seed=inputs.seed)


def _of_plugin(name: str, made: Proposer) -> Proposer:
    if made.name != name:
        message = f"{PLUGINS.find(name)} cannot be used: its `name` is {made.name!r}, not {name!r}"
        raise EnvironmentUnusable(message, hint="repair or remove it", code="plugin_broken")
    return made


def _queue(inputs: ProposerInputs) -> Queue:
    assert inputs.queue is not None, "queue"
    if not inputs.queue.exists():
        hint = "make it, empty if need be: ideas can be added while the campaign runs"
        raise NotFoundError(f"{inputs.queue}: there is no such queue", hint=hint, code="no_queue")
    return Queue(inputs.queue, inputs.read_yaml, inputs.lines)
