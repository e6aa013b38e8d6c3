"""`autoresearch plan status`, and the waiting for its next record."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.plan import Json, Plan
from autoresearch.commands.wiring import parts as real_parts

if TYPE_CHECKING:
    from autoresearch.core.plans.view import PlanView
    from autoresearch.lab.plans.plan_dir import PlanDir



def status(
    plan: Plan = "",
    full: Annotated[
        bool, typer.Option("--full", help="Its stages, what each outcome will mean, what was recorded when.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Which stage a plan is at, what came of the others, what to type."""
    if full:
        return _whole(plan, as_json=as_json)
    plan_dir, view = _known(plan)
    payload = status_of(plan_dir, view)
    output.emit("plan status", payload, as_json=as_json, lines=lines_of(payload))
    return 0


def _whole(plan: str, *, as_json: bool) -> int:
    """The stages and outcomes of a registered plan, or of the file of one that is not."""
    from autoresearch.core.plans.plan_text import as_data, plan_lines
    from autoresearch.lab.plans.plan_dir import read_view
    from autoresearch.lab.plans.register import open_plan, registered_plan

    plan_dir, draft = open_plan(plan, real_parts())
    view = read_view(plan_dir) if plan_dir.tip else None
    staged = draft.plan if draft else registered_plan(plan_dir, view) if view else None
    assert staged is not None
    records = _history(view) if view else ["it is not registered yet: approve it"]
    payload: dict[str, Any] = status_of(plan_dir, view) if view else {"plan": plan_dir.slug, "state": "draft"}
    payload |= {"version": view.version.number if view else 0, "branch": plan_dir.branch if view else ""}
    payload |= {**as_data(staged), "records": records}
    payload.setdefault("next", [f"autoresearch plan approve {plan or plan_dir.slug}"])
    output.emit("plan status", payload, as_json=as_json, lines=[*plan_lines(staged), *records])
    return 0


def _history(view: PlanView) -> list[str]:
    from autoresearch.lab.campaign_report.formatting import stamp

    return [f"{stamp(r['t'])} {str(r['commit'])[:12]} {r['do']} {r.get('stage') or r.get('version') or ''}".rstrip()
            for r in view.records]  # fmt: skip


def wait_for_record(plan_dir: PlanDir, limit: float, since: int, *, as_json: bool, as_exit_code: bool) -> int:
    """Wait for the next record of a plan that runs, for a pause or for the end; `since` is a number of records."""
    from autoresearch.core.plans.view import PlanState
    from autoresearch.lab.plans.plan_dir import read_view

    view = read_view(plan_dir)
    before, tip = (len(view.records) if since < 0 else since), plan_dir.tip
    until = time.monotonic() + limit
    while len(view.records) == before and plan_dir.pursued and time.monotonic() < until:
        time.sleep(min(0.5, max(0.0, until - time.monotonic())))
        if plan_dir.tip != tip:
            tip, view = plan_dir.tip, read_view(plan_dir)
    payload = status_of(plan_dir, view)
    if not payload["pursued"]:  # its last record may have come after the last look, but before its lock was released
        view = read_view(plan_dir)
        payload = status_of(plan_dir, view)
    payload["event"] = "tick" if len(view.records) == before else "news"
    if payload["pursued"]:
        payload["next"] = [f"autoresearch wait {plan_dir.slug} --for 100s --since {len(view.records)}"]
    output.emit("wait", payload, as_json=as_json, lines=lines_of(payload))
    return 1 if as_exit_code and payload["state"] == PlanState.ENDED else 0


def status_of(plan_dir: PlanDir, view: PlanView) -> dict[str, Any]:
    """The flat object about a plan."""
    from autoresearch.core.plans.view import PlanState

    live, state = view.live, view.state
    campaign, campaign_state = (live.campaign, _campaign_state(plan_dir, view)) if live else ("", "")
    done = [run for run in view.runs if run.conclusion is not None]
    return {
        "plan": plan_dir.slug,
        "state": state.value,
        "reason": str((view.ended or {}).get("reason", "")),
        "pursued": plan_dir.pursued,
        "version": view.version.number,
        "approved": view.approved,
        "stage": live.stage if live else view.next,
        "campaign": campaign or None,
        "campaign_state": campaign_state or None,
        "concluded": [
            {
                "stage": run.stage,
                "campaign": run.campaign,
                "met": (run.conclusion or {})["met"],
                "outcome": (run.conclusion or {})["condition"],
                "conclusion": (run.conclusion or {})["conclusion"],
                "next": (run.conclusion or {})["next"],
                "confirmed": (run.conclusion or {})["confirmed"],
                "kept": (run.conclusion or {})["kept"],
                "ledger": (run.conclusion or {})["ledger"],
            }
            for run in done
        ],
        "records": len(view.records),
        "branch": plan_dir.branch,
        "directory": str(plan_dir.directory),
        "report": str(plan_dir.report) if state is PlanState.ENDED else None,
        "next": _next(plan_dir, view, campaign_state),
    }


def _next(plan_dir: PlanDir, view: PlanView, campaign_state: str) -> list[str]:
    from autoresearch.core.plans.view import PlanState

    name = plan_dir.slug
    if plan_dir.pursued:
        return [f"autoresearch wait {name} --for 100s"]
    match view.state:
        case PlanState.ENDED:
            return [f"autoresearch {'report' if plan_dir.flag.exists() else 'plan run'} {name}"]
        case PlanState.REVISE:
            return [f"autoresearch plan revise {view.version.file} --reason '...'"]
        case PlanState.REGISTERED:
            return [f"autoresearch plan approve {name}"]
    resume = [f"autoresearch campaign resume {view.live.campaign}"] if view.live and campaign_state == "paused" else []
    return [*resume, f"autoresearch plan run {name}"]


def _campaign_state(plan_dir: PlanDir, view: PlanView) -> str:
    from autoresearch.lab.campaigns.campaign_history import CampaignHistory
    from autoresearch.lab.campaigns.campaign_status import phase_now
    from autoresearch.lab.plans.stages import campaign_dir_of

    assert view.live is not None
    campaign_dir = campaign_dir_of(plan_dir, view.live)
    return (
        phase_now(campaign_dir, CampaignHistory(campaign_dir).state()).value
        if campaign_dir.spec.exists()
        else "not begun"
    )


def lines_of(payload: dict[str, Any]) -> list[str]:
    """Where a plan stands, for people."""
    where = f", stage {payload['stage']}" if payload["campaign"] else ""
    reason = f": {payload['reason']}" if payload["reason"] else ""
    lines = [f"{payload['plan']} in {payload['directory']}: {payload['state']}{where}{reason}"]
    for one in payload["concluded"][-10:]:
        lines.append(f"{one['stage']}: expectation {one['met']}; {one['conclusion']} -> {one['next']}")
    if payload["campaign"]:
        lines.append(f"campaign {payload['campaign']}: {payload['campaign_state']}")
    if payload["report"]:
        lines.append(f"report: {payload['report']}")
    return lines


def _known(plan: str) -> tuple[PlanDir, PlanView]:
    """A registered plan, by its name or its file, whatever the file says by now."""
    from autoresearch.lab.plans.draft import slug_of
    from autoresearch.lab.plans.plan_dir import find_plan, read_view

    plan_dir = find_plan(slug_of(Path(plan)) if plan.endswith((".yaml", ".yml")) else plan, real_parts())
    return plan_dir, read_view(plan_dir)
