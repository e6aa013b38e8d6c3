"""What a new campaign takes over of earlier ones on the same question: which they are, and whose baseline it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaign_setup.campaign_cost import CampaignCost
from autoresearch.lab.campaign_setup.campaign_spec import ProposedBase
from autoresearch.lab.campaign_setup.read_setup import CampaignSetup
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir

if TYPE_CHECKING:
    from autoresearch.lab.ideas.reused_baseline import ReusableBaseline


def with_earlier(campaign_spec: CampaignSpec, setup: CampaignSetup) -> CampaignSpec:
    """The campaign with the earlier ones of this account on the same question; none with `earlier: false`."""
    spec, found = campaign_spec, list[str]()
    if not setup.file["earlier"] or CampaignDir(Path(spec.directory)).spec.exists():  # one that goes on has its own
        return spec
    for known in campaign_registry.known(setup.parts):
        try:
            old = campaign_records.declared_spec(known.campaign_dir)
        except (AutoresearchError, OSError):  # damaged, or being removed just now
            continue
        from autoresearch.lab.campaigns.earlier import MOST, asks_the_same

        if len(found) < MOST and known.campaign_dir.path != Path(spec.directory) and asks_the_same(old, spec):
            found.append(str(known.campaign_dir.path))
    return replace(spec, earlier=tuple(found))


def reused_at_start(campaign_spec: CampaignSpec, base: ProposedBase) -> ReusableBaseline | None:
    """The earlier baseline that it would have if it began now; None where it makes its own."""
    if not campaign_spec.earlier:
        return None
    from autoresearch.lab.ideas.commit_builder import CommitBuilder
    from autoresearch.lab.ideas.reused_baseline import reusable_at_start

    try:
        return reusable_at_start(CommitBuilder.of(base.with_commit(campaign_spec), base.checkout))
    except AutoresearchError:  # said when the baseline is committed
        return None


def cheaper(cost: CampaignCost, reused: ReusableBaseline | None) -> CampaignCost:
    """The cost without the runs that are there already."""
    if reused is None or cost.runs is None:
        return cost
    runs, less = cost.runs, len(reused.runs)
    return replace(
        cost, runs=replace(runs, baseline=runs.baseline - less, usual=runs.usual - less, most=runs.most - less)
    )
