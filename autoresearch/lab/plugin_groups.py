"""The plug-ins of all registries: which a campaign uses, and whether they are there when it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.errors import EnvironmentUnusable
from autoresearch.plugins import PluginGroup


def _every_group() -> tuple[PluginGroup, ...]:
    from autoresearch.agents.registry import PLUGINS as AGENTS
    from autoresearch.launchers.registry import PLUGINS as LAUNCHERS
    from autoresearch.proposers.registry import PLUGINS as PROPOSERS
    from autoresearch.readers.registry import PLUGINS as READERS
    from autoresearch.trainers.registry import PLUGINS as TRAINERS

    return (TRAINERS, LAUNCHERS, PROPOSERS, AGENTS, READERS)


def used_by(campaign_spec: CampaignSpec, trainer: str) -> dict[str, str]:
    """The plug-ins that a campaign names, as its spec records them: `trainers.mine` -> distribution and version."""
    named: Mapping[str, Iterable[str]] = {
        "trainers": (trainer,),
        "launchers": (target.kind for target in campaign_spec.places),
        "proposers": (campaign_spec.proposer.name,),
        "agents": campaign_spec.research.agents,
    }
    return {key: origin for one in _every_group() for key, origin in one.record(named.get(one.group, ())).items()}


def require(recorded: Mapping[str, str], campaign: str) -> None:
    """Raise EnvironmentUnusable, which names it, for a recorded plug-in that cannot be used here any more."""
    groups = {one.group: one for one in _every_group()} if recorded else {}
    for key, origin in recorded.items():
        group, _, name = key.partition(".")
        if group in groups and groups[group].get(name) is None:
            raise EnvironmentUnusable(
                f"{campaign} uses {name} ({group}), a plug-in of {origin}, which is not installed here",
                hint=f"install {origin.partition(' ')[0]} beside autoresearch, then: "
                f"autoresearch campaign resume {campaign}",
                code="plugin_missing",
            )
