"""`autoresearch campaign approve`: what the coding agent of a campaign has proposed, and what a person lets it edit."""

from __future__ import annotations

from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.campaign_control import Json, ask
from autoresearch.commands.campaign_status import agent_words, payload_of, state_of
from autoresearch.commands.name_lookup import campaign_to_change
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.campaign.idea_name import idea_name
from autoresearch.core.campaign.state import CampaignState
from autoresearch.errors import ConflictError, NotFoundError
from autoresearch.records.campaign_records import CampaignDir


def approve(
    idea: Annotated[str, typer.Argument(metavar="IDEA", show_default=False)] = "",
    campaign: Annotated[str, typer.Option("--campaign")] = "",
    every: Annotated[bool, typer.Option("--all", help="Hold no code idea back any more.")] = False,
    as_json: Json = False,
) -> int:
    """Let a code idea be edited that waits for a person (`hold: true`, `pause --before-edits`), or one be built on and
    claimed whose result looked doubtful.

    Without an IDEA: what the agent has proposed and nobody has begun, what it was told, and what it has cost.
    """
    from autoresearch.core.controller.agent_schedule import held

    campaign_dir = campaign_to_change(campaign, real_parts(), [idea])
    if every:
        return ask(str(campaign_dir.path), "hold", as_json=as_json, command="campaign approve", on=False)
    state = state_of(campaign_dir)
    if not idea:
        return _proposals(campaign_dir, state, as_json=as_json)
    known = next((one for one in state.doubtful if idea in (one.slug, str(one.index), f"#{one.index}")), None)
    idea = known.slug if known else idea
    names = [*(one.slug for one in held(state)), *(one.slug for one in state.doubtful)]
    if idea not in names:
        raise NotFoundError(
            f"{state.spec.name} has no idea {idea!r} that waits for a person",
            hint=f"waiting: {', '.join(names) or 'none'}",
        )
    return ask(str(campaign_dir.path), "approve", as_json=as_json, slug=idea, ended=bool(known))


def _proposals(campaign_dir: CampaignDir, state: CampaignState, *, as_json: bool) -> int:
    from autoresearch.core.controller.agent_schedule import held, waiting

    if not state.spec.research.agent:
        raise ConflictError(f"{state.spec.name} has no agent", hint="--agent NAME when it is started")
    kept_back = {one.slug for one in held(state)}
    ideas = [
        {
            "slug": one.hypothesis.slug,
            "name": idea_name(0, one.hypothesis),
            "kind": one.hypothesis.kind,
            "sentence": one.hypothesis.sentence,
            "state": "held" if one.hypothesis.slug in kept_back else "ready" if one.made else "to be edited",
        }
        for one in waiting(state)
    ]
    refused = [
        {"slug": one.slug, "name": idea_name(0, one), "reason": why} for one, why in state.research.refused[-20:]
    ]
    told = {"told": state.research.notes, "vetoes": [*sorted(state.unwanted), *state.research.vetoes]}
    payload = payload_of(campaign_dir, state) | {"proposals": ideas, "refused": refused, **told}
    lines = [f"{one['slug']} ({one['kind']}, {one['state']}): {one['sentence']}" for one in ideas]
    lines += [f"refused {one['slug']}: {one['reason']}" for one in refused[-5:]]
    lines = lines or ["nothing is waiting"]
    lines += [f"told: {text}" for text in state.research.notes[-5:]]
    lines += [f"vetoed: {text}" for text in told["vetoes"][-5:]]
    lines += agent_words(payload, state)[:1]
    output.emit("campaign approve", payload, as_json=as_json, lines=lines)
    return 0
