"""Pursue a plan: stage after stage as campaigns, expectation against result after each, until it ends or asks.

Everything that is decided is a record on the plan's branch before it is acted on; killed at any instruction and
started again, it goes on from the last one.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autoresearch.core.campaign.spec import CampaignState
from autoresearch.core.plans.model import END
from autoresearch.core.plans.view import PlanState, PlanView, StageRun
from autoresearch.errors import ConflictError
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans import register, stages
from autoresearch.lab.plans.draft import Draft
from autoresearch.lab.plans.plan_dir import PlanPlace, add_record, make, read_view
from autoresearch.lab.plans.report import write_progress, write_report
from autoresearch.lab.plans.stages import Say
from autoresearch.records.failpoint import failpoint
from autoresearch.records.rundir import locked, write_json

Rewrite = Callable[[PlanView, str], Draft]
"""Writes a plan anew, told why; its file holds the new text when it returns."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why the pursuit returned: `state` is the plan's, or what its campaign waits for."""

    state: str
    reason: str
    next: tuple[str, ...]


@contextlib.contextmanager
def in_pursuit(place: PlanPlace) -> Iterator[None]:
    """Be the one who pursues a plan. ConflictError where another does; the lock dies with us."""
    with locked(place.lock, blocking=False) as alone:
        if not alone:
            raise ConflictError(
                f"the plan {place.slug} is being run by another command",
                fix=f"autoresearch plan status {place.slug}",
                code="plan_runs",
            )
        write_json(place.directory / "plan.json", {"pid": os.getpid(), "started": time.time()}, durable=False)
        yield


def pursue(place: PlanPlace, parts: Parts, say: Say) -> Stopped:
    """Run what is left of a plan; the caller holds its lock.

    Raises ConflictError where it is not approved or its files were changed, and what keeps a campaign from starting.
    """
    make(place, parts)
    while True:
        view = read_view(place)
        if view.state is PlanState.ENDED:
            _finish(place, view, parts, say)
            return Stopped("ended", str((view.ended or {}).get("reason", "")), (_report(place),))
        if view.state is PlanState.REVISE:
            write_progress(place, view)
            words = view.runs[-1].conclusion or {}
            fix = f"autoresearch plan revise {view.version.file} --reason '...'"
            return Stopped("revise", str(words.get("conclusion", "")), (fix,))
        register.need_pursuable(place, view)
        if view.live is None:
            _begin(place, view, parts, say)
            continue
        if stopped := _stage(place, view, view.live, parts, say):
            return stopped


def pursue_alone(place: PlanPlace, parts: Parts, say: Say, rewrite: Rewrite | None, most: int) -> Stopped:
    """The same; where it is to be revised, `rewrite` does so, at most so many times, and it goes on unasked."""
    for left in range(most if rewrite else 0, -1, -1):
        stopped = pursue(place, parts, say)
        if stopped.state != "revise" or rewrite is None or not left:
            break
        view = read_view(place)
        reason = f"asked for by the outcome of stage {view.runs[-1].stage}: {stopped.reason}"
        say("the plan is revised")
        draft = rewrite(view, reason)
        view = register.revise(place, draft, parts, reason=reason)
        register.approve(place, view, parts, asked=False)
        say(f"version {view.version.number} goes on with {view.next}")
    return stopped


def _begin(place: PlanPlace, view: PlanView, parts: Parts, say: Say) -> None:
    """Write down that the next stage begins, or that the plan is over."""
    plan = register.registered_plan(place, view)
    if view.next == END:
        last = view.runs[-1].conclusion or {}
        return _end(place, parts, say, f"{last.get('stage')}: {last.get('conclusion')}")
    stage = plan.stage(view.next)
    assert stage is not None, view.next
    if view.times(stage.name, view.version.number) >= stage.most_runs:
        return _end(place, parts, say, f"stage {stage.name} was run {stage.most_runs} times, which is all it may")
    register.need_same(place, view, register.draft_of(view, parts))  # before anything of it is written down
    record = {
        "t": parts.clock(),
        "do": "begun",
        "stage": stage.name,
        "version": view.version.number,
        "prefix": stages.prefix_of(place, stage.name, view.times(stage.name) + 1),
    }
    add_record(place, record, f"plan {place.slug}: stage {stage.name} begins")
    failpoint("plan.begun")
    say(f"stage {stage.name}: {stage.question}")
    return None


def _end(place: PlanPlace, parts: Parts, say: Say, reason: str) -> None:
    record = {"t": parts.clock(), "do": "ended", "reason": reason}
    add_record(place, record, f"plan {place.slug}: ended: {reason[:200]}")
    say(f"the plan has ended: {reason}")


def _stage(place: PlanPlace, view: PlanView, run: StageRun, parts: Parts, say: Say) -> Stopped | None:
    """Follow the stage that was begun to its conclusion; Stopped where its campaign does not get there by itself."""
    there = stages.campaign_place(place, run)
    if not there.spec.exists():
        draft = register.draft_of(view, parts)
        register.need_same(place, view, draft)
        there = stages.begin_stage(place, run, draft, view.versions[run.version - 1].code, parts, say)
    stages.take_up(there, parts, say)
    write_progress(place, view)
    failpoint("plan.following")
    alone = view.approvals.get(run.version, {}).get("do") == "waived"
    state = stages.follow(there, parts, say, alone=alone)
    if state is not CampaignState.ENDED:
        go_on = (f"autoresearch campaign resume {run.campaign}", f"autoresearch plan run {place.slug}")
        return Stopped(state.value, f"the campaign {run.campaign} of stage {run.stage} is {state.value}", go_on)
    stage = register.registered_plan(place, view, run.version).stage(run.stage)
    assert stage is not None, run.stage
    record: dict[str, Any] = {"t": parts.clock(), "do": "concluded", **stages.conclusion(run, stage, there)}
    said = f"{stage.name}: expectation {record['met']}; {record['conclusion']} (next: {record['next']})"
    failpoint("plan.judged")
    add_record(place, record, f"plan {place.slug}: {said[:300]}")
    say(said)
    write_progress(place, read_view(place))
    return None


def _finish(place: PlanPlace, view: PlanView, parts: Parts, say: Say) -> None:
    """final_report.md with its figures, and finish.flag as the last word; done again if a kill came between."""
    if place.flag.exists():
        return
    write_progress(place, view)
    for remark in write_report(place, view, now=parts.clock()).remarks:
        say(remark)
    failpoint("plan.reported")
    flag = {"schema": 1, "plan": place.slug, "ending": "ended", "report": str(place.report), "t": parts.clock()}
    write_json(place.flag, flag)
    say(f"report: {place.report}")


def _report(place: PlanPlace) -> str:
    return f"autoresearch plan report {place.slug}"
