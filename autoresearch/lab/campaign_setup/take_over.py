"""Which earlier campaigns on the same question a new one knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaign_setup.read_setup import CampaignSetup
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir


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
