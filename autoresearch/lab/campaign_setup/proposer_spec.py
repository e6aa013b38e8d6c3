"""Where the ideas of a campaign come from: a queue, a search space, or a coding agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.campaign.spec import ProposerSpec
from autoresearch.core.controller.agent_schedule import HYBRID
from autoresearch.errors import UsageError
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.ideas.idea_sources import OPTIMISER
from autoresearch.lab.resolve.trainer_settings import TrainerSettings
from autoresearch.proposers.registry import check_packages


@dataclass(frozen=True, slots=True)
class CampaignProposer:
    """The proposer, with the origin of what the campaign file does not give."""

    spec: ProposerSpec
    sources: Mapping[str, str] = field(default_factory=dict)


def resolve_proposer(campaign_file: CampaignFile, trainer_settings: TrainerSettings) -> CampaignProposer:
    """The proposer with its space or its queue.

    UsageError if it has neither, EnvironmentUnusable if a package that it needs is missing.
    """
    return CampaignProposer(_proposer(campaign_file, trainer_settings), _sources(campaign_file))


def _proposer(campaign_file: CampaignFile, trainer_settings: TrainerSettings) -> ProposerSpec:
    name = campaign_file["proposer"] or ("queue" if campaign_file["queue"] else "tpe")
    if name == AGENT:
        return ProposerSpec(name, seed=campaign_file["seed"])
    if name == "queue":
        return ProposerSpec(name, queue=_queue(campaign_file), seed=campaign_file["seed"])
    space = _space(campaign_file, trainer_settings, grid=name == "grid")
    check_packages(OPTIMISER if name == HYBRID else name)
    return ProposerSpec(name, space=space, queue=campaign_file["queue"], seed=campaign_file["seed"])


def _sources(campaign_file: CampaignFile) -> dict[str, str]:
    """The origin of `proposer` and `space` if they were not given; they have no built-in value."""
    sources = {}
    if not campaign_file.is_set("proposer"):
        sources["proposer"] = "a queue is named" if campaign_file["queue"] else "built-in"
    if not campaign_file.is_set("space") and not campaign_file["queue"]:
        sources["space"] = "the trainer's own, low-risk"
    return sources


def _queue(campaign_file: CampaignFile) -> str:
    if not campaign_file["queue"]:
        raise UsageError(
            "the proposer is a queue, and none is named",
            hint="`queue: ideas/` in the campaign file, or --queue PATH: a folder of blueprints or a YAML list",
            code="no_queue",
        )
    if not Path(campaign_file["queue"]).exists():
        raise UsageError(f"the queue {campaign_file['queue']} is not there", code="no_queue")
    return str(campaign_file["queue"])


def _space(campaign_file: CampaignFile, trainer_settings: TrainerSettings, *, grid: bool) -> dict[str, Any]:
    """The space of the campaign file, else the trainer's own; checked for a grid or a search."""
    from autoresearch.core.campaign.space import need_grid, need_search
    from autoresearch.core.campaign.space_file import read_space

    trainer = trainer_settings.trainer
    space: Any = campaign_file["space"]
    if space is None:
        space = trainer.space(trainer_settings.whole)
    if not space:
        raise UsageError(
            f"there is nothing to try: no `space` is given, and the trainer {trainer.name} has none of its own",
            hint="`space: {lr: {low: 1e-6, high: 1e-4, log: true}}` in the campaign file, or a `queue`",
            code="no_space",
        )
    parsed = read_space(space)
    (need_grid if grid else need_search)(parsed)
    return dict(space)
