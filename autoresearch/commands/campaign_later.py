"""A campaign with `after: NAME`: what `campaign start` does with it instead of starting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import ConflictError
from autoresearch.lab.campaign_setup import campaign_registry, successors
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.campaigns.campaign_status import has_ended


def begin_later(campaign_file: CampaignFile, flags: Mapping[str, Any], pairs: Sequence[str], *, as_json: bool) -> int:
    """Have the campaign started when the one that it waits for is over."""
    before = campaign_registry.find(campaign_file["after"], real_parts())
    if has_ended(before):
        raise ConflictError(f"{before.path.name} is over already", hint="leave `after` out: it can begin now")
    successor = successors.successor_of(campaign_file, flags, pairs)
    successors.register(before, successor)
    payload = {
        "state": "waiting",
        "after": before.path.name,
        "if": successor.condition,
        "campaign": successor.source,
        "next": [f"autoresearch wait {before.path.name} --for 100s"],
    }
    lines = [f"{before.path.name} starts it at its end: {successor.words}"]
    output.emit("campaign start", payload, as_json=as_json, lines=lines)
    return 0
