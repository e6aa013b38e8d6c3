"""What a controller does about the requests that users make from another terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoresearch.core.campaign.hypothesis import BASELINE
from autoresearch.core.campaign.spec import CampaignPhase, Rules
from autoresearch.core.campaign.state import CampaignState, Idea, Round
from autoresearch.core.controller import scheduler
from autoresearch.core.controller.actions import (
    ControllerAction,
    Do,
    Note,
    RepairIdea,
    Say,
    StopRun,
    pause,
)
from autoresearch.core.controller.confirmation_rounds import plan_round, verdicts_without_test

ASKED = "asked for"  # the reason of a request that gives none


def answer(state: CampaignState, request: Mapping[str, Any], live: Sequence[str]) -> tuple[ControllerAction, ...]:
    """Carry out one request. Unknown ones, of a newer version, are passed over."""
    reason = str(request.get("reason") or ASKED)
    match request.get("do"):
        case "pause":
            return pause(state, reason)
        case "resume":
            again = [Note("again", {"reason": reason})] if scheduler.baseline_failed(state) else []  # it may be mended
            running = {"state": CampaignPhase.RUNNING.value, "reason": str(request.get("reason") or "")}
            return (*again, Note("state", running), Say("going on"), Do.READMIT_AGENT)
        case "drain" | "stop" as how:
            stopped = [StopRun(run, reason) for run in live] if how == "stop" else []
            return (Note("told", {"how": how, "reason": reason}), Say(f"{how}: {reason}"), *stopped)
        case "skip" | "veto" if BASELINE in (request.get("slug"), request.get("what")):
            return (Say("the baseline cannot be skipped"),)
        case "skip":
            return _skip(state, str(request.get("slug")), reason)
        case "set":
            changes = {k: v for k, v in request.items() if k in Rules.__dataclass_fields__}
            words = ", ".join(f"{k} {v}" for k, v in changes.items())
            return Note("rules", changes), Say(f"rules changed: {words}")
        case "veto":
            return _veto(state, str(request.get("what")), reason)
        case "fix":
            return _fix(state, request)
        case "confirm":
            return _confirm(state, [str(slug) for slug in request.get("slugs", ())])
        case "tell":
            text = str(request.get("text"))
            return Note("told_agent", {"text": text}), Say(f"told the researcher: {text}")
        case "approve":
            slug = str(request.get("slug"))
            return Note("trusted" if state.by_slug(slug) else "approved", {"slug": slug}), Say(f"{slug}: approved")
        case "hold":
            on = bool(request.get("on"))
            text = f"code ideas wait for {'a person' if on else 'nobody'}"
            return Note("hold", {"on": on, "reason": reason}), Say(text)
    return ()


def _skip(state: CampaignState, slug: str, reason: str) -> tuple[ControllerAction, ...]:
    stopped = [StopRun(run.run, f"skipped: {reason}") for idea, run in state.live if idea.slug == slug]
    return (Note("unwanted", {"slug": slug, "reason": reason}), Say(f"{slug}: to be skipped: {reason}"), *stopped)


def _veto(state: CampaignState, what: str, reason: str) -> tuple[ControllerAction, ...]:
    """A name that is known is skipped; words are passed on to the agent, and compared with what it proposes."""
    proposed = state.research.proposed.values()
    known = state.by_slug(what) or next((one for one in proposed if one.hypothesis.slug == what), None)
    skipped = _skip(state, what, f"vetoed: {reason}") if known is not None else ()
    return (*skipped, Note("vetoed", {"what": what, "reason": reason}), Say(f"vetoed: {what}"))


def _fix(state: CampaignState, request: Mapping[str, Any]) -> tuple[ControllerAction, ...]:
    """A follow-up fix: a commit on the idea's branch, then the same idea again; it is no new idea."""
    idea = state.by_slug(str(request.get("slug")))
    if idea is None:
        return (Say(f"{request.get('slug')}: there is no such idea"),)
    if why := unrepairable(state, idea):
        return (Say(why[0]),)
    return (RepairIdea(idea.index, request.get("entry"), str(request.get("note") or "repaired")),)


def unrepairable(state: CampaignState, idea: Idea) -> tuple[str, str] | None:
    """Why an idea cannot be repaired now, and a hint what to do instead; None if it can."""
    if idea.hypothesis.is_baseline:
        hint = f"repair it in your checkout, and begin another campaign: --set prefix={state.spec.prefix}-2"
        return "the baseline cannot be repaired: it is what all else is measured against", hint
    if idea.live:
        return f"{idea.name} runs now: it can be repaired when that run is over", "wait for it, or campaign skip IDEA"
    if idea.slug in state.unwanted:
        return f"{idea.name} was skipped, so that it would not run again", "campaign add makes it another idea"
    return None


def _confirm(state: CampaignState, slugs: Sequence[str]) -> tuple[ControllerAction, ...]:
    named = [idea for slug in slugs if (idea := state.by_slug(slug))]
    if state.open_round:
        return (Say("a confirmation is under way"),)
    planned, why = plan_round(state, named)
    if planned is None:
        return verdicts_without_test(state, named) or (Say(f"no confirmation: {why}"),)
    return (*verdicts_without_test(state, named), *begin_round(planned), Say(f"confirming: {why}"))


def begin_round(planned: Round) -> tuple[ControllerAction, ...]:
    """Record what a round of confirmation will be, before its first run."""
    fields = {"round": planned.number, "candidates": list(planned.candidates), "sizes": list(planned.sizes)}
    return Do.WITHDRAW_RUN, Note("confirming", fields)
