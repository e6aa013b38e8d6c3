"""`autoresearch plan run|status|control`: stage after stage, while nobody watches."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.plan import Agent, Set
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import ConflictError, NotFoundError, UsageError
from autoresearch.runner.masking import clean_text

if TYPE_CHECKING:
    from autoresearch.core.plans.view import PlanView
    from autoresearch.lab.parts import Parts
    from autoresearch.lab.plans.plan_dir import PlanDir

Plan = Annotated[str, typer.Argument(metavar="PLAN", show_default=False)]
Json = Annotated[bool, typer.Option("--json")]


def run(
    plan: Plan = "",
    no_human: Annotated[
        bool, typer.Option("--no-human", help="Ask nobody: fixed in git all the same, and written down as such.")
    ] = False,
    agent: Agent = "",
    set_: Set = None,
    most_revisions: Annotated[int, typer.Option(help="By --agent, in this run.")] = 2,
    detach: Annotated[bool, typer.Option("--detach", help="Go on in a tmux session of its own.")] = False,
    as_json: Json = False,
) -> int:
    """Run the stages of an approved plan as campaigns, one after another; again after a crash or a pause."""
    from autoresearch.commands.plan_agent import chosen_agent, rewriting
    from autoresearch.core.plans.view import PlanState
    from autoresearch.lab.plans import register
    from autoresearch.lab.plans.plan_dir import read_view
    from autoresearch.lab.plans.run_stages import in_pursuit, pursue_alone

    if agent and not no_human:
        raise UsageError("an agent that revises while the plan runs asks nobody", hint="--agent needs --no-human")
    chosen = chosen_agent(agent, set_)
    parts = real_parts()
    plan_dir, draft = register.open_plan(plan, parts)
    if draft is not None and (no_human or plan_dir.tip):
        view = register.register(plan_dir, draft, parts) if no_human else read_view(plan_dir)
        register.need_same(plan_dir, view, draft)
    elif draft is not None:
        raise ConflictError(
            f"{draft.path} is not approved",
            hint="or `--no-human`, which is written down",
            fix=f"autoresearch plan approve {plan}",
            code="not_approved",
        )
    view = read_view(plan_dir)
    if no_human:
        view = register.approve(plan_dir, view, parts, waived=True)
    if not (agent and view.state is PlanState.REVISE):  # which it then does
        register.need_pursuable(plan_dir, view)
    if detach:
        researcher = json.dumps({**chosen, "most": most_revisions}) if agent else ""
        return _detached(plan_dir, view, parts, researcher, as_json=as_json)
    with in_pursuit(plan_dir):
        rewrite = rewriting(plan_dir, chosen, parts)
        found = pursue_alone(plan_dir, parts, _said_and_logged(plan_dir), rewrite, most_revisions)
    view = read_view(plan_dir)
    payload = status_of(plan_dir, view) | {"state": found.state, "reason": found.reason, "next": list(found.next)}
    output.emit("plan run", payload, as_json=as_json, lines=_lines(payload))
    return 0


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
    output.emit("plan status", payload, as_json=as_json, lines=_lines(payload))
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
    output.emit("wait", payload, as_json=as_json, lines=_lines(payload))
    return 1 if as_exit_code and payload["state"] == PlanState.ENDED else 0


def control(
    directory: Annotated[Path, typer.Argument(metavar="DIR")],
    researcher: Annotated[str, typer.Option(metavar="JSON", hidden=True)] = "",
) -> int:
    """Pursue a plan in a session of its own (`plan run --detach` calls this)."""
    import signal

    from autoresearch.commands.campaign_control import Speaker
    from autoresearch.commands.plan_agent import rewriting
    from autoresearch.git_repo import checkout as repository
    from autoresearch.lab.plans.plan_dir import PlanDir
    from autoresearch.lab.plans.run_stages import in_pursuit, pursue_alone
    from autoresearch.lab.runs import detached

    found = repository.find(directory.parents[3])
    if found is None:
        raise NotFoundError(f"{directory} lies in no repository")
    plan_dir, chosen = PlanDir(found, directory.name), json.loads(researcher) if researcher else {}
    with in_pursuit(plan_dir):
        os.environ.clear()
        os.environ.update(detached.take_environment(directory))
        os.environ.pop("AUTORESEARCH_RUN_ID", None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal may go, the plan goes on
        detached.reported(directory)
        say = Speaker(plan_dir.log)
        parts, most = real_parts(), int(chosen.pop("most", 0))
        stopped = pursue_alone(plan_dir, parts, say, rewriting(plan_dir, chosen, parts), most)
        say(f"{stopped.state}: {stopped.reason}")
    return 0


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


def _lines(payload: dict[str, Any]) -> list[str]:
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


def _said_and_logged(plan_dir: PlanDir) -> Any:
    def say(text: str) -> None:
        line = clean_text(" ".join(text.split()))
        output.remark(line)
        try:
            with plan_dir.log.open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%H:%M:%S')} {line}\n")
        except OSError:
            pass  # a full disk; the branch is the truth

    return say


def _detached(plan_dir: PlanDir, view: PlanView, parts: Parts, researcher: str, *, as_json: bool) -> int:
    """Start `plan control` in a session of its own."""
    from autoresearch.core.text import branch_and_run_names as naming
    from autoresearch.lab import settings as project
    from autoresearch.lab.plans.plan_dir import create_plan_dir
    from autoresearch.lab.resolve.run_names import new_token
    from autoresearch.lab.runs import detached
    from autoresearch.records.rundir import locked

    create_plan_dir(plan_dir, parts)
    settings = project.load(Path(view.version.file).parent, environ=parts.environ, flags={})
    token = new_token()
    with locked(plan_dir.directory / "start.lock"):
        if plan_dir.pursued:
            raise ConflictError(
                f"the plan {plan_dir.slug} is being run by another command",
                fix=f"autoresearch plan status {plan_dir.slug}",
                code="plan_runs",
            )
        session = naming.session_name(f"plan-{plan_dir.slug}", token)
        words = ("plan", "control", str(plan_dir.directory), *(("--researcher", researcher) if researcher else ()))
        attach = detached.start(
            plan_dir.directory, words, session, f"plan-{token}", parts, settings.text("tmux_socket")
        )
    payload = status_of(plan_dir, view) | {"attach": attach}
    output.emit(
        "plan run",
        payload,
        as_json=as_json,
        lines=[f"{plan_dir.slug} in {plan_dir.directory} is being run; attach: {attach}"],
    )
    return 0
