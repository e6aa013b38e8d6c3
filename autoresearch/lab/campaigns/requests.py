"""Requests that users make of a campaign from another terminal, and how its controller carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.hypothesis import BASELINE
from autoresearch.core.campaign.spec import CampaignPhase, Rules
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.lab.campaigns import scheduler
from autoresearch.lab.campaigns.control import CampaignControl
from autoresearch.records import campaign_records, events
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.order_file import request_stop
from autoresearch.records.rundir import RunDir

KINDS = ("pause", "resume", "drain", "stop", "skip", "add", "fix", "set", "confirm", "tell", "veto", "approve", "hold")


def ask(campaign_dir: CampaignDir, do: str, **fields: Any) -> None:
    """Queue a request for the controller, which checks at least once a second; without one, it is read at the next
    start.
    """
    assert do in KINDS
    campaign_records.add(campaign_dir.requests, do, **fields)


def obey(control: CampaignControl, state: CampaignState, request: Mapping[str, Any]) -> None:
    """Do one request. Unknown ones are of a newer version and passed over."""
    reason = str(request.get("reason") or "asked for")
    match request.get("do"):
        case "pause":
            control.pause(state, reason)
        case "resume":
            if scheduler.baseline_failed(state):  # what was missing may be there now
                note(control.campaign_dir, "again", reason=reason)
            note(
                control.campaign_dir,
                "state",
                state=CampaignPhase.RUNNING.value,
                reason=str(request.get("reason") or ""),
            )
            control.say("going on")
        case "drain" | "stop" as how:
            note(control.campaign_dir, "told", how=how, reason=reason)
            control.say(f"{how}: {reason}")
            if how == "stop":
                for rundir in control.live.values():
                    stop_run(rundir, reason)
        case "skip" | "veto" if BASELINE in (request.get("slug"), request.get("what")):
            control.say("the baseline cannot be skipped")
        case "skip":
            _skip(control, state, str(request.get("slug")), reason)
        case "set":
            changes = {k: v for k, v in request.items() if k in Rules.__dataclass_fields__}
            note(control.campaign_dir, "rules", **changes)
            control.say(f"rules changed: {', '.join(f'{k} {v}' for k, v in changes.items())}")
        case "tell":
            note(control.campaign_dir, "told_agent", text=str(request.get("text")))
            control.say(f"told the researcher: {request.get('text')}")
        case "veto":
            _veto(control, state, str(request.get("what")), reason)
        case "approve":
            note(control.campaign_dir, "approved", slug=str(request.get("slug")))
            control.say(f"{request.get('slug')}: approved")
        case "hold":
            note(control.campaign_dir, "hold", on=bool(request.get("on")), reason=reason)
            control.say("code ideas wait for a person" if request.get("on") else "code ideas wait for nobody")
        case "fix":
            _fix(control, state, request)
        case "confirm":
            _confirm(control, state, [str(slug) for slug in request.get("slugs", ())])


def _skip(control: CampaignControl, state: CampaignState, slug: str, reason: str) -> None:
    note(control.campaign_dir, "unwanted", slug=slug, reason=reason)
    control.say(f"{slug}: to be skipped: {reason}")
    for idea, run in state.live:
        if idea.slug == slug:
            stop_run(RunDir(Path(run.run_dir)), f"skipped: {reason}")


def _veto(control: CampaignControl, state: CampaignState, what: str, reason: str) -> None:
    """A name that is known is skipped; words are passed on to the researcher, and measured against what it proposes."""
    proposed = state.research.proposed.values()
    known = state.by_slug(what) or next((one for one in proposed if one.hypothesis.slug == what), None)
    if known is not None:
        _skip(control, state, what, f"vetoed: {reason}")
    note(control.campaign_dir, "vetoed", what=what, reason=reason)
    control.say(f"vetoed: {what}")


def unrepairable(state: CampaignState, idea: Idea) -> tuple[str, str] | None:
    """Why an idea cannot be repaired now, and a hint what to do instead; None if it can."""
    if idea.hypothesis.is_baseline:
        hint = f"repair it in your checkout, and begin another campaign: --set prefix={state.spec.prefix}-2"
        return "the baseline cannot be repaired: it is what all else is measured against", hint
    if idea.live:
        return f"{idea.slug} runs now: it can be repaired when that run is over", "wait for it, or campaign skip IDEA"
    if idea.slug in state.unwanted:
        return f"{idea.slug} was skipped, so that it would not run again", "campaign add makes it another idea"
    return None


def _fix(control: CampaignControl, state: CampaignState, request: Mapping[str, Any]) -> None:
    """A follow-up fix: a commit on the idea's branch, then the same idea again; no new idea."""
    from autoresearch.lab.campaigns.commit_builder import IdeaRefused
    from autoresearch.lab.campaigns.idea_commit import repair
    from autoresearch.proposers.queue_entry import Broken, from_entry

    idea = state.by_slug(str(request.get("slug")))
    text = str(request.get("note") or "repaired")
    why = unrepairable(state, idea) if idea else (f"{request.get('slug')}: there is no such idea", "")
    if idea is None or why:
        control.say(why[0] if why else "")
        return
    try:
        commit = repair(control.builder, idea, from_entry(request.get("entry"), Path("/")), text)
    except (IdeaRefused, Broken) as error:
        control.say(f"{idea.slug}: not repaired: {error}")
        return
    note(control.campaign_dir, "fixed", index=idea.index, slug=idea.slug, commit=commit, note=text)
    control.say(f"{idea.slug}: repaired ({text}); it runs again")


def _confirm(control: CampaignControl, state: CampaignState, slugs: list[str]) -> None:
    from autoresearch.lab.campaigns.confirmation_rounds import plan_round

    named = [idea for slug in slugs if (idea := state.by_slug(slug))]
    if state.open_round:
        control.say("a confirmation is under way")
        return
    planned, why = plan_round(state, named)
    if planned is None:
        control.say(f"no confirmation: {why}")
        return
    control.begin_round(planned.number, planned.candidates, planned.each, planned.baseline)
    control.say(f"confirming: {why}")


def stop_run(rundir: RunDir, reason: str, *, cause: str = "stop_request") -> None:
    """Ask one run to end now; `cause` is the machine-readable reason for the exit record."""
    events.append(rundir.events, "stop_requested", how="now", reason=reason)
    request_stop(rundir, reason, cause=cause)


def note(campaign_dir: CampaignDir, do: str, **fields: Any) -> None:
    """Append a line to the campaign's journal."""
    campaign_records.add(campaign_dir.journal, do, **fields)
