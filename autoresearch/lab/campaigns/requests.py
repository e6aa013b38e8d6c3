"""Requests: what people ask of a campaign from another terminal, and how its controller obeys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.campaign.hypothesis import BASELINE
from autoresearch.core.campaign.spec import CampaignState, Rules
from autoresearch.core.campaign.view import CampaignView, Idea
from autoresearch.lab.campaigns import scheduler
from autoresearch.records import campaign_records, events
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.order_file import request_stop
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from autoresearch.lab.campaigns.controller import Controller

KINDS = ("pause", "resume", "drain", "stop", "skip", "add", "fix", "set", "confirm", "tell", "veto", "approve", "hold")


def ask(place: CampaignDir, do: str, **fields: Any) -> None:
    """Ask the controller; it looks at least once a second, and reads what was asked while there was none."""
    assert do in KINDS
    campaign_records.add(place.requests, do, **fields)


def obey(controller: Controller, view: CampaignView, request: Mapping[str, Any]) -> None:
    """Do one request. Unknown ones are of a newer version and passed over."""
    reason = str(request.get("reason") or "asked for")
    match request.get("do"):
        case "pause":
            controller.pause(view, reason)
        case "resume":
            if scheduler.baseline_failed(view):  # what was missing may be there now
                note(controller.place, "again", reason=reason)
            note(controller.place, "state", state=CampaignState.RUNNING.value, reason=str(request.get("reason") or ""))
            controller.research.barred = ""
            controller.say("going on")
        case "drain" | "stop" as how:
            note(controller.place, "told", how=how, reason=reason)
            controller.say(f"{how}: {reason}")
            if how == "stop":
                for rundir in controller.live.values():
                    stop_run(rundir, reason)
        case "skip" | "veto" if BASELINE in (request.get("slug"), request.get("what")):
            controller.say("the baseline cannot be skipped or vetoed")
        case "skip":
            _skip(controller, view, str(request.get("slug")), reason)
        case "set":
            changes = {k: v for k, v in request.items() if k in Rules.__dataclass_fields__}
            note(controller.place, "rules", **changes)
            controller.say(f"rules changed: {', '.join(f'{k} {v}' for k, v in changes.items())}")
        case "tell":
            note(controller.place, "told_agent", text=str(request.get("text")))
            controller.say(f"told the researcher: {request.get('text')}")
        case "veto":
            _veto(controller, view, str(request.get("what")), reason)
        case "approve":
            note(controller.place, "approved", slug=str(request.get("slug")))
            controller.say(f"{request.get('slug')}: approved")
        case "hold":
            note(controller.place, "hold", on=bool(request.get("on")), reason=reason)
            controller.say("code ideas wait for a person" if request.get("on") else "code ideas wait for nobody")
        case "fix":
            _fix(controller, view, request)
        case "confirm":
            _confirm(controller, view, [str(slug) for slug in request.get("slugs", ())])


def _skip(controller: Controller, view: CampaignView, slug: str, reason: str) -> None:
    note(controller.place, "unwanted", slug=slug, reason=reason)
    controller.say(f"{slug}: to be skipped: {reason}")
    for idea, run in view.live:
        if idea.slug == slug:
            stop_run(RunDir(Path(run.run_dir)), f"skipped: {reason}")


def _veto(controller: Controller, view: CampaignView, what: str, reason: str) -> None:
    """A name that is known is skipped; words are passed on to the researcher, and measured against what it proposes."""
    known = view.by_slug(what) or next((p for p in view.research.proposed.values() if p.hypothesis.slug == what), None)
    if known is not None:
        _skip(controller, view, what, f"vetoed: {reason}")
    note(controller.place, "vetoed", what=what, reason=reason)
    controller.say(f"vetoed: {what}")


def unrepairable(view: CampaignView, idea: Idea) -> tuple[str, str] | None:
    """Why an idea cannot be repaired now, and what to do instead; None where it can."""
    if idea.hypothesis.is_baseline:
        hint = f"repair it in your checkout, and begin another campaign: --prefix {view.spec.prefix}-2"
        return "the baseline cannot be repaired: it is what all else is measured against", hint
    if idea.live:
        return f"{idea.slug} runs now: it can be repaired when that run is over", "campaign wait, or campaign skip IDEA"
    if idea.slug in view.unwanted:
        return f"{idea.slug} was skipped, so that it would not run again", "campaign add makes it another idea"
    return None


def _fix(controller: Controller, view: CampaignView, request: Mapping[str, Any]) -> None:
    """A follow-up fix: a commit on the idea's branch, then the same idea again; no new idea."""
    from autoresearch.lab.campaigns.commit_builder import IdeaRefused
    from autoresearch.lab.campaigns.idea_commit import repair
    from autoresearch.proposers.queue_entry import Broken, from_entry

    idea = view.by_slug(str(request.get("slug")))
    text = str(request.get("note") or "repaired")
    why = unrepairable(view, idea) if idea else (f"{request.get('slug')}: there is no such idea", "")
    if idea is None or why:
        controller.say(why[0] if why else "")
        return
    try:
        commit = repair(controller.shop, idea, from_entry(request.get("entry"), Path("/")), text)
    except (IdeaRefused, Broken) as error:
        controller.say(f"{idea.slug}: not repaired: {error}")
        return
    note(controller.place, "fixed", index=idea.index, slug=idea.slug, commit=commit, note=text)
    controller.say(f"{idea.slug}: repaired ({text}); it runs again")


def _confirm(controller: Controller, view: CampaignView, slugs: list[str]) -> None:
    from autoresearch.lab.campaigns.confirmation_rounds import plan_round

    named = [idea for slug in slugs if (idea := view.by_slug(slug))]
    if view.open_round:
        controller.say("a confirmation is under way")
        return
    planned, why = plan_round(view, named)
    if planned is None:
        controller.say(f"no confirmation: {why}")
        return
    controller.begin_round(planned.number, planned.candidates, planned.each, planned.baseline)
    controller.say(f"confirming: {why}")


def stop_run(rundir: RunDir, reason: str, *, cause: str = "stop_request") -> None:
    """Ask one run to end now; `cause` is the stable word for it in the exit record."""
    events.append(rundir.events, "stop_requested", how="now", reason=reason)
    request_stop(rundir, reason, cause=cause)


def note(place: CampaignDir, do: str, **fields: Any) -> None:
    """A line of the journal."""
    campaign_records.add(place.journal, do, **fields)
