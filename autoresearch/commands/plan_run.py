"""`autoresearch plan run`: stage after stage, while nobody watches."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.plan import Agent, Json, Plan, Set
from autoresearch.commands.plan_status import lines_of, status_of
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import ConflictError, UsageError
from autoresearch.runner.masking import clean_text

if TYPE_CHECKING:
    from autoresearch.core.plans.view import PlanView
    from autoresearch.lab.parts import Parts
    from autoresearch.lab.plans.plan_dir import PlanDir



def run(
    plan: Plan = "",
    no_human: Annotated[
        bool, typer.Option("--no-human", help="Do not ask for approval, and record that nobody gave it.")
    ] = False,
    agent: Agent = "",
    set_: Set = None,
    most_revisions: Annotated[int, typer.Option(help="By --agent, in this run.")] = 2,
    detach: Annotated[bool, typer.Option("--detach", help="Run in a tmux session of its own, and return.")] = False,
    as_json: Json = False,
) -> int:
    """Run the stages of an approved plan as campaigns, one after another; again after a crash or a pause."""
    from autoresearch.commands.plan_agent import chosen_agent, rewriting
    from autoresearch.core.plans.view import PlanState
    from autoresearch.lab.plans import register
    from autoresearch.lab.plans.plan_dir import read_view
    from autoresearch.lab.plans.run_stages import in_pursuit, pursue_alone

    if agent and not no_human:
        raise UsageError("an agent cannot ask for approval of its revisions", hint="--agent needs --no-human")
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
    output.emit("plan run", payload, as_json=as_json, lines=lines_of(payload))
    return 0


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
