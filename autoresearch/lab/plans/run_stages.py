"""Run a plan: each stage as a campaign, its result compared with its expectation, until the plan ends or stops.

Every decision is recorded on the plan's branch before it takes effect; killed at any instruction and started again, it
continues after the last record.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.plans.model import END
from autoresearch.core.plans.view import PlanState, PlanView, StageRun
from autoresearch.errors import ConflictError
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans import register, stages
from autoresearch.lab.plans.draft import Draft
from autoresearch.lab.plans.plan_dir import PlanDir, add_record, create_plan_dir, read_view
from autoresearch.lab.plans.report import write_progress, write_report
from autoresearch.lab.plans.stage_conclusion import conclude_stage
from autoresearch.lab.plans.stages import Say
from autoresearch.records.failpoint import failpoint
from autoresearch.records.rundir import locked, write_json

Rewrite = Callable[[PlanView, str], Draft]
"""Rewrites the plan's file for a given reason."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why `pursue` returned: `state` is the plan's, or that of its unfinished campaign."""

    state: str
    reason: str
    next: tuple[str, ...]


@contextlib.contextmanager
def in_pursuit(plan_dir: PlanDir) -> Iterator[None]:
    """Hold the plan's lock, which ends with the process. ConflictError if another command holds it."""
    with locked(plan_dir.lock, blocking=False) as alone:
        if not alone:
            raise ConflictError(
                f"the plan {plan_dir.slug} is being run by another command",
                fix=f"autoresearch plan status {plan_dir.slug}",
                code="plan_runs",
            )
        write_json(plan_dir.directory / "plan.json", {"pid": os.getpid(), "started": time.time()}, durable=False)
        yield


def pursue(plan_dir: PlanDir, parts: Parts, say: Say) -> Stopped:
    """Run the remaining stages of a plan; the caller holds its lock.

    Raises ConflictError if it is not approved or its files were changed, and whatever prevents a campaign's start.
    """
    create_plan_dir(plan_dir, parts)
    while True:
        view = read_view(plan_dir)
        if view.state is PlanState.ENDED:
            _finish(plan_dir, view, parts, say)
            return Stopped("ended", str((view.ended or {}).get("reason", "")), (_report(plan_dir),))
        if view.state is PlanState.REVISE:
            write_progress(plan_dir, view)
            words = view.runs[-1].conclusion or {}
            fix = f"autoresearch plan revise {view.version.file} --reason '...'"
            return Stopped("revise", str(words.get("conclusion", "")), (fix,))
        register.need_pursuable(plan_dir, view)
        if view.live is None:
            _begin(plan_dir, view, parts, say)
            continue
        if stopped := _stage(plan_dir, view, view.live, parts, say):
            return stopped


def pursue_alone(plan_dir: PlanDir, parts: Parts, say: Say, rewrite: Rewrite | None, most: int) -> Stopped:
    """Run a plan unattended: if it must be revised, `rewrite` does so, at most `most` times, without an approval."""
    for left in range(most if rewrite else 0, -1, -1):
        stopped = pursue(plan_dir, parts, say)
        if stopped.state != "revise" or rewrite is None or not left:
            break
        view = read_view(plan_dir)
        reason = f"asked for by the outcome of stage {view.runs[-1].stage}: {stopped.reason}"
        say("the plan is revised")
        draft = rewrite(view, reason)
        view = register.revise(plan_dir, draft, parts, reason=reason)
        register.approve(plan_dir, view, parts, waived=True)
        say(f"version {view.version.number} goes on with {view.next}")
    return stopped


def _begin(plan_dir: PlanDir, view: PlanView, parts: Parts, say: Say) -> None:
    """Record that the next stage begins, or that the plan has ended."""
    plan = register.registered_plan(plan_dir, view)
    if view.next == END:
        last = view.runs[-1].conclusion or {}
        return _end(plan_dir, parts, say, f"{last.get('stage')}: {last.get('conclusion')}")
    stage = plan.stage(view.next)
    assert stage is not None, view.next
    if view.times(stage.name, view.version.number) >= stage.most_runs:
        return _end(plan_dir, parts, say, f"stage {stage.name} was run {stage.most_runs} times, which is its limit")
    register.need_same(plan_dir, view, register.draft_of(view, parts))  # before the stage is recorded
    record = {
        "t": parts.clock(),
        "do": "begun",
        "stage": stage.name,
        "version": view.version.number,
        "prefix": stages.prefix_of(plan_dir, stage.name, view.times(stage.name) + 1),
    }
    add_record(plan_dir, record, f"plan {plan_dir.slug}: stage {stage.name} begins")
    failpoint("plan.begun")
    say(f"stage {stage.name}: {stage.question}")
    return None


def _end(plan_dir: PlanDir, parts: Parts, say: Say, reason: str) -> None:
    record = {"t": parts.clock(), "do": "ended", "reason": reason}
    add_record(plan_dir, record, f"plan {plan_dir.slug}: ended: {reason[:200]}")
    say(f"the plan has ended: {reason}")


def _stage(plan_dir: PlanDir, view: PlanView, stage_run: StageRun, parts: Parts, say: Say) -> Stopped | None:
    """Follow the current stage to its conclusion; returns Stopped if its campaign needs somebody to continue it."""
    campaign_dir = stages.campaign_dir_of(plan_dir, stage_run)
    if not campaign_dir.spec.exists():
        draft = register.draft_of(view, parts)
        register.need_same(plan_dir, view, draft)
        campaign_dir = stages.begin_stage(
            plan_dir, stage_run, draft, view.versions[stage_run.version - 1].code, parts, say
        )
    stages.ensure_controller(campaign_dir, parts, say)
    write_progress(plan_dir, view)
    failpoint("plan.following")
    alone = view.approvals.get(stage_run.version, {}).get("do") == "waived"
    phase = stages.follow(campaign_dir, parts, say, alone=alone)
    if phase is not CampaignPhase.ENDED:
        go_on = (f"autoresearch campaign resume {stage_run.campaign}", f"autoresearch plan run {plan_dir.slug}")
        return Stopped(
            phase.value, f"the campaign {stage_run.campaign} of stage {stage_run.stage} is {phase.value}", go_on
        )
    stage = register.registered_plan(plan_dir, view, stage_run.version).stage(stage_run.stage)
    assert stage is not None, stage_run.stage
    record: dict[str, Any] = {"t": parts.clock(), "do": "concluded", **conclude_stage(stage_run, stage, campaign_dir)}
    summary = f"{stage.name}: expectation {record['met']}; {record['conclusion']} (next: {record['next']})"
    failpoint("plan.judged")
    add_record(plan_dir, record, f"plan {plan_dir.slug}: {summary[:300]}")
    say(summary)
    write_progress(plan_dir, read_view(plan_dir))
    return None


def _finish(plan_dir: PlanDir, view: PlanView, parts: Parts, say: Say) -> None:
    """Write final_report.md with its figures, then finish.flag; repeated if a kill came in between."""
    if plan_dir.flag.exists():
        return
    write_progress(plan_dir, view)
    for remark in write_report(plan_dir, view, now=parts.clock()).remarks:
        say(remark)
    failpoint("plan.reported")
    flag = {"schema": 1, "plan": plan_dir.slug, "ending": "ended", "report": str(plan_dir.report), "t": parts.clock()}
    write_json(plan_dir.flag, flag)
    say(f"report: {plan_dir.report}")


def _report(plan_dir: PlanDir) -> str:
    return f"autoresearch report {plan_dir.slug}"
