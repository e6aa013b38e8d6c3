"""A stage of a plan as a real campaign: begun, taken up again, followed, concluded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.spec import CampaignState, Rules
from autoresearch.core.campaign.view import CampaignView
from autoresearch.core.plans.condition import WORDS
from autoresearch.core.plans.model import Stage
from autoresearch.core.plans.stage_facts import asked_for, judged, stage_facts
from autoresearch.core.plans.view import StageRun
from autoresearch.errors import NotFoundError
from autoresearch.lab.campaign_setup import start_campaign
from autoresearch.lab.campaigns import requests
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.campaign_status import state_now
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans.draft import Draft, stage_campaign
from autoresearch.lab.plans.plan_dir import PlanPlace
from autoresearch.proposers.queue_entry import found_from_anywhere
from autoresearch.records.campaign_records import CampaignDir, entries
from autoresearch.records.rundir import write_atomically

Say = Callable[[str], None]
LOOK_S = 0.3
RUN_DRY = ("queue", "grid")  # proposers that have nothing more, and not only nothing now
MOST_RESTARTS = 2  # of a controller that dies without another row


def prefix_of(place: PlanPlace, stage: str, times: int) -> str:
    """Of the branches of a stage's campaign; its last part is the campaign's name."""
    again = f"-{times}" if times > 1 else ""
    return f"{place.prefix}/{place.slug}-{stage}{again}"


def campaign_place(place: PlanPlace, run: StageRun) -> CampaignDir:
    """Where the campaign of a stage is, or will be."""
    return CampaignDir(place.directory.parents[1] / run.campaign)


def begin_stage(place: PlanPlace, run: StageRun, draft: Draft, code: str, parts: Parts, say: Say) -> CampaignDir:
    """Begin the campaign of a stage on the code that its version was registered with; safe to repeat.

    Raises whatever keeps a campaign from being begun.
    """
    stage = draft.plan.stage(run.stage) if draft.plan else None
    if stage is None:
        raise NotFoundError(f"the plan has no stage {run.stage}", code="no_stage")
    more: dict[str, Any] = {"prefix": run.prefix}
    if not stage.campaign.get("base"):
        more["base"] = code
    queue = _queue(place, run, stage, draft.path.parent)
    chart = start_campaign.with_own_results(stage_campaign(draft, stage, parts, queue=queue, **more), parts)
    for finding in start_campaign.preflight(chart):
        if finding not in chart.findings:  # those were told by `plan check`
            say(str(finding))
    return start_campaign.begin(chart, parts)


def take_up(there: CampaignDir, parts: Parts, say: Say) -> None:
    """Give a campaign its controller, where it has none and is not over."""
    view = CampaignHistory(there).view()
    if not there.controlled and view.state is not CampaignState.ENDED:
        attach = start_campaign.start_controller(there, view.spec, parts)
        say(f"{view.spec.name} runs; {attach}")


def _queue(place: PlanPlace, run: StageRun, stage: Stage, folder: Path) -> str:
    """The file of its ideas, their own files found from anywhere; "" where it lists none."""
    if not stage.ideas:
        return ""
    path = place.directory / f"{run.campaign}.yaml"
    entries = (json.dumps(found_from_anywhere(entry, folder), ensure_ascii=False) for entry in stage.ideas)
    write_atomically(path, "".join(f"- {entry}\n" for entry in entries).encode())
    return str(path)


def follow(there: CampaignDir, parts: Parts, say: Say, *, alone: bool = False) -> CampaignState:
    """Wait until a campaign has ended, or does not go on by itself: paused, or dead again and again.

    `alone`: nobody will come to mend what paused it, so that it ends with what it has.
    """
    book, left, rows = CampaignHistory(there), MOST_RESTARTS, -1
    while True:
        view = book.view()
        state = state_now(there, view)
        if len(view.rows) != rows:
            rows, left = len(view.rows), MOST_RESTARTS
        if state is CampaignState.ENDED:
            return state
        if state is CampaignState.PAUSED:
            if not alone or _asked_to_pause(there, view):
                return state
            if not any(True for _ in entries(there.requests, needle=b'"drain"')):
                say(f"{view.spec.name}: {view.reason}; nobody is there to mend it, so it ends with what it has")
                requests.ask(there, "drain", reason=f"it paused ({view.reason}), and nobody was there (--no-human)")
        used_up = state is CampaignState.WAITING and view.spec.proposer.name in RUN_DRY
        if used_up and (view.spec.rules.count or 0) != view.attempted:
            say(f"{view.spec.name}: all of its ideas were tried, so it ends with {view.attempted}")
            requests.ask(there, "set", count=view.attempted)
        if state is CampaignState.DEAD:
            if not left:
                return state
            left -= 1
            say(f"the controller of {view.spec.name} is gone; another one takes it up")
            start_campaign.start_controller(there, view.spec, parts)
        time.sleep(LOOK_S)


def _asked_to_pause(there: CampaignDir, view: CampaignView) -> bool:
    """Whether a person did it, rather than the campaign itself."""
    reasons = (str(line.get("reason") or "asked for") for line in entries(there.requests, needle=b'"pause"'))
    return view.reason in reasons


def conclusion(run: StageRun, stage: Stage, there: CampaignDir) -> dict[str, Any]:
    """Expectation against result, and what follows: the record of a stage whose campaign has ended."""
    view = CampaignHistory(there).view()
    facts = stage_facts(view, entries(there.verdicts))
    met, n = judged(stage, facts)
    outcome = stage.outcomes[n]
    best = view.best
    return {
        "stage": stage.name,
        "campaign": run.campaign,
        "expected": stage.expectation.sentence,
        "expectation": stage.expectation.when.text,
        "met": met.value,
        "outcome": n,
        "condition": outcome.condition,
        "conclusion": outcome.conclusion,
        "next": outcome.next,
        "facts": {**{word: facts[word] for word in WORDS}, **asked_for(stage, facts)},
        "kept": [idea.slug for idea in view.ideas if idea.kept and idea.index > 1],
        "confirmed": [idea.slug for idea in view.ideas if idea.kept and idea.confirmed == "confirmed"],
        "best": best.slug if best else "",
        "best_commit": best.commit if best else "",
        "metric": view.spec.objective.metric,
        "base_commit": view.spec.base_commit,
        "ledger": str(there.ledger),
        "reason": view.reason,
        "deviations": list(deviations(there, view)),
    }


def deviations(there: CampaignDir, view: CampaignView) -> Iterator[str]:
    """What was done to a campaign that its plan did not say, in words."""
    waiting = False
    for line in view.timeline:
        match line.get("do"):
            case "state":
                waiting = line.get("state") == CampaignState.WAITING
            case "rules":
                rules = ", ".join(f"{key} {line[key]}" for key in Rules.__dataclass_fields__ if key in line)
                why = "its ideas were used up" if waiting else "by `campaign set`"
                yield f"stop rules changed to {rules} ({why})"
            case "unwanted":
                yield f"idea {line.get('slug')} was skipped: {line.get('reason')}"
            case "fixed":
                yield f"idea {line.get('slug')} was repaired: {line.get('note')}"
            case "told" if line.get("how"):
                yield f"it was told to {line['how']}: {line.get('reason')}"
    if added := sum(1 for _ in entries(there.requests, needle=b'"add"')):
        yield f"ideas were added by hand (`campaign add`: {added})"
    for hypothesis, reason in view.skipped:
        yield f"idea {hypothesis.slug} was never tried: {reason}"
