"""Campaigns that begin when another one is over: `after: NAME` in a campaign file, with `if: confirmed` or `if: ended`.

The campaign that is waited for keeps the list (`successors.jsonl`), and its controller starts what is due before it
records its own end, as if the same line were typed at that moment: from the working tree as it is then, unless `base:`
names a commit, and with a deadline that counts from then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autoresearch.records import campaign_records
from autoresearch.values import asdict, dataclass

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState
    from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
    from autoresearch.records.campaign_records import CampaignDir

CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class Successor:
    """What is started: a campaign file or a blueprint, with what was typed for it as KEY=VALUE pairs."""

    source: str
    pairs: tuple[str, ...]
    condition: str  # ended or confirmed

    @property
    def words(self) -> str:
        """For people: `ablation.yaml, if an idea is confirmed`."""
        return f"{self.source}, if an idea is confirmed" if self.condition == CONFIRMED else self.source

    def why_not(self, state: CampaignState) -> str:
        """Why it is not due at the end of that campaign; "" if it is."""
        if state.stop_mode:
            return f"{state.spec.name} was stopped"
        if self.condition == CONFIRMED and not any(idea.confirmed == CONFIRMED for idea in state.ideas):
            return f"{state.spec.name} confirmed no idea"
        return ""


def register(
    campaign_dir: CampaignDir, campaign_file: CampaignFile, flags: Mapping[str, Any], pairs: Sequence[str]
) -> Successor:
    """Have the campaign that was typed started at the end of this one; registering it again changes nothing."""
    typed = [f"{key}={value}" for key, value in flags.items() if value not in (None, "")]
    typed += [pair for pair in pairs if pair.partition("=")[0].strip() not in ("after", "if")]
    successor = Successor(str(campaign_file.source), (*typed, "after=null", "if=null"), campaign_file["if"])
    if successor not in registered(campaign_dir):
        campaign_records.add(campaign_dir.successors, "start", **asdict(successor))
    return successor


def registered(campaign_dir: CampaignDir) -> list[Successor]:
    """Those of a campaign, in their order."""
    lines = campaign_records.entries(campaign_dir.successors)
    return [Successor(line["source"], tuple(line["pairs"]), line["condition"]) for line in lines]
