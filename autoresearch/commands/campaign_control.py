"""`autoresearch campaign pause|resume|stop|set`, and what hands a request to its controller."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.campaign import follow
from autoresearch.commands.campaign_status import payload_of, state_of
from autoresearch.commands.name_lookup import campaign_to_change
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import ConflictError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autoresearch.core.metrics.objective import Objective
    from autoresearch.records.campaign_records import CampaignDir

Name = Annotated[str, typer.Argument(metavar="CAMPAIGN", show_default=False)]
Reason = Annotated[str, typer.Option(help="Why; goes into the journal.")]
Json = Annotated[bool, typer.Option("--json")]
RULES = ("count", "deadline", "target", "budget_gpu_hours", "budget_usd", "budget_tokens", "confirm_runs")
_PAIR = re.compile(r"[A-Za-z_-]+=")  # the name of a campaign, or its directory, is none
MOST_CHARACTERS = 4000  # of a note to the agent


def pause(
    campaign: Name = "",
    reason: Reason = "",
    before_edits: Annotated[
        bool, typer.Option("--before-edits", help="Only hold code ideas back, for `campaign approve`.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Begin nothing more; what runs goes on."""
    if before_edits:
        return ask(campaign, "hold", as_json=as_json, on=True, reason=reason)
    return ask(campaign, "pause", as_json=as_json, reason=reason)


def stop(
    campaign: Name = "",
    drain: Annotated[bool, typer.Option("--drain", help="Let what runs finish first.")] = False,
    reason: Reason = "",
    as_json: Json = False,
) -> int:
    """Stop what runs now, record it, and end the campaign."""
    return ask(campaign, "drain" if drain else "stop", as_json=as_json, command="campaign stop", reason=reason)


def resume(
    campaign: Name = "",
    detach: Annotated[bool, typer.Option("--detach")] = False,
    yes: Annotated[bool, typer.Option("--yes", hidden=True)] = False,
    as_json: Json = False,
) -> int:
    """Go on: after a pause, a crash of the controller, a reboot."""
    del yes  # the plan was agreed to when it began
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.campaigns import requests
    from autoresearch.records import campaign_records
    from autoresearch.records.campaign_records import CampaignDir

    parts = real_parts()
    if campaign.startswith("/") and campaign_records.restore(CampaignDir(Path(campaign))):
        output.remark(f"the records of {Path(campaign).name} were written again")
    campaign_dir = campaign_to_change(campaign, parts)
    state = state_of(campaign_dir)
    if state.phase is CampaignPhase.ENDED:
        raise ConflictError(
            f"{state.spec.name} has ended: {state.reason}",
            hint="`campaign set` with a higher count or a later deadline makes it go on",
            fix=f"autoresearch campaign set {state.spec.name} count={state.attempted + 10}",
        )
    if state.phase is CampaignPhase.PAUSED or campaign_dir.controlled:
        requests.ask(campaign_dir, "resume")
    if not campaign_dir.controlled:
        start_campaign.start_and_wait(campaign_dir, parts)
    if detach or output.agent_or_pipe():
        _settled(campaign_dir)
        state = state_of(campaign_dir)
        output.emit(
            "campaign resume",
            payload_of(campaign_dir, state),
            as_json=as_json,
            lines=[f"{state.spec.name} in {campaign_dir.path} goes on"],
        )
        return 0
    return follow(campaign_dir, as_json=as_json)


def set_rules(
    words: Annotated[list[str] | None, typer.Argument(metavar="[CAMPAIGN] KEY=VALUE...", show_default=False)] = None,
    as_json: Json = False,
) -> int:
    """Change the stop rules of a campaign, or confirm_runs; recorded. One that has ended goes on if it may."""
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.campaigns import requests

    pairs = [word for word in words or () if _PAIR.match(word)]
    names = [word for word in words or () if not _PAIR.match(word)]
    if len(names) > 1 or not pairs:
        raise UsageError(
            f"{names[-1]!r} is no KEY=VALUE" if names else "which rule?",
            hint=f"the rules are {', '.join(RULES)}",
            fix=f"autoresearch campaign set {(names or ['CAMPAIGN'])[0]} count=40 deadline=10h",
        )
    parts = real_parts()
    campaign_dir = campaign_to_change(names[0] if names else "", parts)
    state = state_of(campaign_dir)
    rules = _rules(pairs, state.spec.objective, parts.clock())
    changes = state.spec.changed_rules(rules)
    if campaign_dir.controlled:
        requests.ask(campaign_dir, "set", **changes)
        _settled(campaign_dir)
    elif state.phase is CampaignPhase.ENDED:
        start_campaign.continue_with(campaign_dir, changes)
        start_campaign.start_and_wait(campaign_dir, parts)
    else:
        requests.note(campaign_dir, "rules", **changes)
    state = state_of(campaign_dir)
    lines = [f"{state.spec.name} in {campaign_dir.path}: {', '.join(f'{k} = {v}' for k, v in changes.items())}"]
    output.emit("campaign set", payload_of(campaign_dir, state), as_json=as_json, lines=lines)
    return 0


def _rules(pairs: Sequence[str], objective: Objective, now: float) -> dict[str, Any]:
    """The rules in KEY=VALUE words, checked as a campaign file's are."""
    from autoresearch.core.campaign.spec import parse_target
    from autoresearch.lab.campaign_setup.campaign_keys import CAMPAIGN_KEYS, TYPES
    from autoresearch.lab.yaml_files import parse_pairs

    given = parse_pairs(pairs, {name: TYPES[name] for name in RULES}, option="")
    if unset := next((name for name, value in given.items() if value is None), None):
        raise UsageError(f"{unset}=null: a stop rule of a campaign that has started can be changed, not removed")
    values: dict[str, Any] = {}
    for name, value in given.items():
        try:
            values[name] = CAMPAIGN_KEYS[name].read(value, now)
            if name == "target":
                values[name] = parse_target(values[name], objective)
        except (ValueError, TypeError, OverflowError) as error:
            raise UsageError(f"{name}: {error}") from None
    return values


def ask(campaign: str, do: str, *, as_json: bool, command: str = "", ended: bool = False, **fields: Any) -> int:
    """Hand a request to the controller of a campaign, and say where the campaign stands then.

    `ended`: also of one that has ended: whoever continues it answers.
    """
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.lab.campaigns import requests

    campaign_dir = campaign_to_change(campaign, real_parts())
    state = state_of(campaign_dir)
    if state.phase is CampaignPhase.ENDED and not ended:
        fix = f"autoresearch report {state.spec.name}"
        raise ConflictError(f"{state.spec.name} has ended: {state.reason}", fix=fix)
    requests.ask(campaign_dir, do, **{k: v for k, v in fields.items() if v != ""})
    _settled(campaign_dir)
    state = state_of(campaign_dir)
    words = "the request is recorded"
    if state.phase is CampaignPhase.ENDED:
        words += f"; go on with autoresearch campaign confirm {fields.get('slug', '')}"
    elif not campaign_dir.controlled:
        words += f"; no controller is running: autoresearch campaign resume {state.spec.name}"
    lines = [f"{state.spec.name} in {campaign_dir.path}: {words}"]
    output.emit(command or f"campaign {do}", payload_of(campaign_dir, state), as_json=as_json, lines=lines)
    return 0


def _settled(campaign_dir: CampaignDir) -> None:
    """Wait a moment for the controller to have obeyed."""
    from autoresearch.records.campaign_records import entries

    last = max((e["seq"] for e in entries(campaign_dir.requests)), default=0)
    until = time.monotonic() + 3.0
    while campaign_dir.controlled and state_of(campaign_dir).requests < last and time.monotonic() < until:
        time.sleep(0.05)
