"""A stage of a plan as a campaign: started, resumed, followed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.plans.model import Stage
from autoresearch.core.plans.view import StageRun
from autoresearch.errors import NotFoundError
from autoresearch.lab.campaign_setup import controller_session, start_campaign
from autoresearch.lab.campaign_setup.preflight import preflight
from autoresearch.lab.campaigns import requests
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.campaign_status import phase_now
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans.draft import Draft, stage_campaign
from autoresearch.lab.plans.plan_dir import PlanDir
from autoresearch.proposers.queue_entry import found_from_anywhere
from autoresearch.records.campaign_records import CampaignDir, entries
from autoresearch.records.rundir import write_atomically

Say = Callable[[str], None]
POLL_S = 0.3
FINITE = ("queue", "grid")  # proposers that run out of ideas for good
MOST_RESTARTS = 2  # of a controller that dies without writing another row


def prefix_of(plan_dir: PlanDir, name: str, times: int) -> str:
    """Prefix of the branches of a stage's campaign; its last part is the campaign's name."""
    again = f"-{times}" if times > 1 else ""
    return f"{plan_dir.prefix}/{plan_dir.slug}-{name}{again}"


def campaign_dir_of(plan_dir: PlanDir, stage_run: StageRun) -> CampaignDir:
    """The directory of a stage's campaign, which may not exist yet."""
    return CampaignDir(plan_dir.directory.parents[1] / stage_run.campaign)


def begin_stage(plan_dir: PlanDir, stage_run: StageRun, draft: Draft, code: str, parts: Parts, say: Say) -> CampaignDir:
    """Start the campaign of a stage on the code that its version was registered with; safe to repeat.

    Raises whatever prevents the start of a campaign.
    """
    stage = draft.plan.stage(stage_run.stage) if draft.plan else None
    if stage is None:
        raise NotFoundError(f"the plan has no stage {stage_run.stage}", code="no_stage")
    more: dict[str, Any] = {"prefix": stage_run.prefix}
    if not stage.campaign.get("base"):
        more["base"] = code
    queue = _queue(plan_dir, stage_run, stage, draft.path.parent)
    proposed = stage_campaign(draft, stage, parts, queue=queue, **more)
    for finding in preflight(proposed):
        if finding not in proposed.findings:  # those were shown by `plan check`
            say(str(finding))
    return start_campaign.create(proposed, parts)


def ensure_controller(campaign_dir: CampaignDir, parts: Parts, say: Say) -> None:
    """Start the controller of a campaign that has none and has not ended."""
    state = CampaignHistory(campaign_dir).state()
    if not campaign_dir.controlled and state.phase is not CampaignPhase.ENDED:
        attach = controller_session.start_controller(campaign_dir, parts)
        say(f"{state.spec.name} runs; {attach}")


def _queue(plan_dir: PlanDir, stage_run: StageRun, stage: Stage, folder: Path) -> str:
    """Write the file of the stage's ideas, with absolute paths in it; returns its path, "" without any ideas."""
    if not stage.ideas:
        return ""
    path = plan_dir.directory / f"{stage_run.campaign}.yaml"
    entries = (json.dumps(found_from_anywhere(entry, folder), ensure_ascii=False) for entry in stage.ideas)
    write_atomically(path, "".join(f"- {entry}\n" for entry in entries).encode())
    return str(path)


def follow(campaign_dir: CampaignDir, parts: Parts, say: Say, *, alone: bool = False) -> CampaignPhase:
    """Wait until a campaign has ended, or needs somebody to continue it: paused, or its controller died repeatedly.

    `alone`: nobody will fix the cause of a pause, so the campaign is drained with the results that it has.
    """
    history, left, rows = CampaignHistory(campaign_dir), MOST_RESTARTS, -1
    while True:
        state = history.state()
        phase = phase_now(campaign_dir, state)
        if len(state.rows) != rows:
            rows, left = len(state.rows), MOST_RESTARTS
        if phase is CampaignPhase.ENDED:
            return phase
        if phase is CampaignPhase.PAUSED:
            if not alone or _asked_to_pause(campaign_dir, state):
                return phase
            if not any(True for _ in entries(campaign_dir.requests, needle=b'"drain"')):
                say(f"{state.spec.name}: {state.reason}; nobody can fix it, so it ends with its present results")
                requests.ask(
                    campaign_dir, "drain", reason=f"it paused ({state.reason}), and nobody was present (--no-human)"
                )
        used_up = phase is CampaignPhase.WAITING and state.spec.proposer.name in FINITE
        if used_up and (state.spec.rules.count or 0) != state.attempted:
            say(f"{state.spec.name}: all of its ideas were tried, so it ends after {state.attempted}")
            requests.ask(campaign_dir, "set", count=state.attempted)
        if phase is CampaignPhase.DEAD:
            if not left:
                return phase
            left -= 1
            say(f"the controller of {state.spec.name} died; another one is started")
            controller_session.start_controller(campaign_dir, parts)
        time.sleep(POLL_S)


def _asked_to_pause(campaign_dir: CampaignDir, state: CampaignState) -> bool:
    """Whether a person requested the pause, rather than the campaign itself."""
    reasons = (str(line.get("reason") or "asked for") for line in entries(campaign_dir.requests, needle=b'"pause"'))
    return state.reason in reasons
