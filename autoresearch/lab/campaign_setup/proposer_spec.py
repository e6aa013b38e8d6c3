"""Where the ideas of a campaign come from: a queue, a search space, or a coding agent."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoresearch.core.agents.protection import why_protected
from autoresearch.core.agents.turns import AGENT
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.spec import ProposerSpec
from autoresearch.core.campaign.usual_space import around, on_one_line
from autoresearch.core.controller.agent_schedule import HYBRID
from autoresearch.core.run.trainer import Recipe
from autoresearch.errors import InputMissing, UsageError
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.ideas.idea_sources import OPTIMISER
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.proposers.queue_entry import QUEUE
from autoresearch.proposers.registry import NAMES, check_packages


@dataclass(frozen=True, slots=True)
class CampaignProposer:
    """The proposer, with what its ideas can vary and the origin of what the campaign file does not give."""

    spec: ProposerSpec
    launch: LaunchSettings
    sources: Mapping[str, str] = field(default_factory=dict)


def asked_keys(campaign_file: CampaignFile) -> tuple[str, ...]:
    """The keys of the campaign file's space; a queue is checked entry by entry."""
    return tuple(map(str, campaign_file["space"])) if isinstance(campaign_file["space"], Mapping) else ()


def resolve_proposer(campaign_file: CampaignFile, launch: LaunchSettings, whole: Recipe) -> CampaignProposer:
    """The proposer with its space or its queue. `whole`: the recipe as its trainer sees it.

    UsageError if it has neither, EnvironmentUnusable if a package that it needs is missing.
    """
    queue, sources = campaign_file["queue"], {}
    if not campaign_file.is_set("proposer"):
        sources["proposer"] = "a queue is named" if queue else "built-in"
    if not campaign_file.is_set("space") and not queue:
        sources["space"] = "the trainer's own, low-risk"
    name = campaign_file["proposer"] or ("queue" if queue else "tpe")
    space: dict[str, Any] = {}
    if name == QUEUE:
        _require(queue)
    elif name != AGENT:
        needed = name in (*NAMES, HYBRID)  # a plug-in may do without a space
        if needed or campaign_file["space"] or launch.trainer.space(whole):
            space = _space(campaign_file, launch, whole, grid=name == "grid")
        check_packages(OPTIMISER if name == HYBRID else name)
    spec = ProposerSpec(name, space=space, queue="" if name == AGENT else queue, seed=campaign_file["seed"])
    return CampaignProposer(spec, launch, sources)


def _require(queue: str) -> None:
    if not queue:
        raise UsageError(
            "the proposer is a queue, and none is named",
            hint="`queue: ideas/` in the campaign file, or --queue PATH: a folder of blueprints or a YAML list",
            code="no_queue",
        )
    if not Path(queue).exists():
        raise UsageError(f"the queue {queue} is not there", code="no_queue")


def _space(campaign_file: CampaignFile, launch: LaunchSettings, whole: Recipe, *, grid: bool) -> dict[str, Any]:
    """The space of the campaign file, else the trainer's own; checked for a grid or a search."""
    from autoresearch.core.campaign.space import need_grid, need_search
    from autoresearch.core.campaign.space_file import read_space

    trainer = launch.trainer
    space: Any = campaign_file["space"]
    if space is None:
        space = trainer.space(whole)
    if not space:
        none = f"there is nothing to try: no `space` is given, and the trainer {trainer.name} has none of its own"
        file = str(campaign_file.path or campaign_file.blueprint)
        add_to = str(campaign_file.path or campaign_file.blueprint.with_name("campaign.yaml"))
        if offered := _offered(launch):
            line = space_line(launch)
            raise InputMissing(
                f"{none}; this launch has {', '.join(f'{key} ({value})' for key, value in offered.items())}",
                hint=f"--set 'space={line}', or in the campaign file: space: {line}; "
                "--queue FILE tries a list of your own",
                missing="space",
                add=f"space: {line}",
                add_to=add_to,
                fix=shlex.join(["autoresearch", "campaign", "start", file]),
                setting=f"space={line}",
                code="no_space",
            )
        raise InputMissing(
            none,
            hint="`space: {lr: {low: 1e-6, high: 1e-4, log: true}}` in the campaign file if something takes an lr; "
            "else changes of files, by a list (--queue ideas.yaml) or a coding agent (--proposer agent --agent NAME)",
            missing="space",
            add="space: {lr: {low: 1e-6, high: 1e-4, log: true}}",
            add_to=add_to,
            fix="autoresearch config schema idea",
            code="no_space",
        )
    parsed = read_space(space)
    (need_grid if grid else need_search)(parsed)
    return {launch.key_of(str(key)): value for key, value in space.items()}


def space_line(launch: LaunchSettings) -> str:
    """A space around two numbers of this launch, as a campaign file has it; "" if it has none."""
    offered = list(_offered(launch).items())[:2]
    return on_one_line({key: around(key, value) for key, value in offered}) if offered else ""


def _offered(launch: LaunchSettings) -> dict[str, Any]:
    """The numbers that this launch could vary; not what measures a run, such as its seed or its number of steps."""
    numbers = {
        key: value
        for key, value in flatten(launch.settings).items()
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9 and not why_protected(key)
    }
    return dict(list(numbers.items())[:8])
