"""`autoresearch campaign approve|confirm`: what a person lets the agent edit, and which ideas are put to the proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.campaign_control import Json, ask
from autoresearch.commands.campaign_status import agent_words, known_idea, payload_of, state_of
from autoresearch.commands.name_lookup import campaign_to_change
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.campaign.idea_name import idea_name
from autoresearch.core.campaign.state import CampaignState
from autoresearch.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
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


def confirm(
    ideas: Annotated[list[str] | None, typer.Argument(metavar="IDEA...", show_default=False)] = None,
    campaign: Annotated[str, typer.Option("--campaign")] = "",
    as_json: Json = False,
) -> int:
    """Put ideas to the proof: fresh seeds, fresh baselines, corrected for the choice. Default: the best.

    A discarded idea may be named, too: the interval of its gain says what one run could not.
    """
    from autoresearch.core.campaign.judgement import unprovable
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.core.controller.confirmation_rounds import plan_round
    from autoresearch.core.controller.sentences import seed_words
    from autoresearch.core.statistics.confirmation import fewest_runs
    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.campaigns import requests

    parts = real_parts()
    campaign_dir = campaign_to_change(campaign, parts, ideas or ())
    state = state_of(campaign_dir)
    named = [known_idea(state, word) for word in ideas or []]
    kept, more = f"autoresearch campaign status {state.spec.name} --full", f"autoresearch wait {state.spec.name}"
    if state.phase is CampaignPhase.ENDED:
        more = f"autoresearch campaign set {state.spec.name} count={state.attempted + 10}"
    for idea in named:
        if idea.hypothesis.is_baseline:
            raise ConflictError("the baseline is what ideas are measured against: it cannot be confirmed", fix=kept)
        if idea.pruned or not (idea.status in ("keep", "discard") and idea.values):
            why = "ended early" if idea.pruned else idea.status or "not over"
            raise ConflictError(f"{idea.name} has no result that could be confirmed ({why})", fix=kept)
    asked = named or ([state.best] if state.best else [])
    if done := next((idea for idea in asked if idea and idea.confirmed == "confirmed"), None):
        raise ConflictError(f"{done.name} is confirmed already", fix=f"autoresearch report {state.spec.name}")
    if not ideas and not (state.best and state.best.index > 1):
        raise ConflictError(f"{state.spec.name} keeps nothing but its baseline: there is nothing to confirm", fix=more)
    if state.unseeded and all(idea is None or idea.confirmed for idea in asked):
        raise ConflictError(f"nothing can be confirmed. {seed_words(state)}", code="unseeded")
    if asked and all(idea is not None and unprovable(idea) for idea in asked):
        words = "; ".join(f"{idea.name}: {unprovable(idea)}" for idea in asked if idea)
        hint = "further runs would show the same: `campaign fix` changes its code, `campaign add` tries it another way"
        raise ConflictError(words, hint=hint, code="unprovable")
    planned, cost = plan_round(state, [idea for idea in asked if idea])
    least = fewest_runs(1 + len(state.rounds))
    if state.spec.rules.confirm_runs < least and not (state.unseeded or state.open_round):
        fix = f"autoresearch campaign set {state.spec.name} confirm_runs={least}"
        raise ConflictError(f"nothing can be confirmed: {cost}", fix=fix, code="too_few_confirm_runs")
    requests.ask(campaign_dir, "confirm", slugs=[idea.slug for idea in named])
    if not campaign_dir.controlled:
        if state.phase is CampaignPhase.ENDED:
            start_campaign.continue_with(campaign_dir, {})
        start_campaign.start_and_wait(campaign_dir, parts)
    names = ", ".join(idea.name for idea in named) or "the best idea"
    lines = [f"{names} of {state.spec.name} in {campaign_dir.path}: {'put to the proof; ' if planned else ''}{cost}"]
    output.emit("campaign confirm", payload_of(campaign_dir, state_of(campaign_dir)), as_json=as_json, lines=lines)
    return 0
