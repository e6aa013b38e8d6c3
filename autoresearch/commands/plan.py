"""`autoresearch plan write|check|approve|revise`: what will be run, and what each outcome will mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.lab.campaign_setup.agent_options import TURN_KEYS

if TYPE_CHECKING:
    from autoresearch.core.plans.model import StagedPlan
    from autoresearch.core.plans.view import PlanView
    from autoresearch.lab.plans.plan_dir import PlanDir

Topic = Annotated[Path, typer.Argument(metavar="TOPIC.md", show_default=False)]
Out = Annotated[str, typer.Option(metavar="FILE", help="The file to write, if not <topic>.plan.yaml beside the topic.")]
Plan = Annotated[str, typer.Argument(metavar="PLAN", show_default=False)]
Json = Annotated[bool, typer.Option("--json")]
Agent = Annotated[str, typer.Option(help="claude, codex ... or command: it writes the plan.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help=f"Of the agent: {', '.join(TURN_KEYS)}."),
]


def write(
    topic: Topic,
    out: Out = "",
    agent: Agent = "",
    set_: Set = None,
    as_json: Json = False,
) -> int:
    """Have an agent write a plan for a topic (--agent), or write its skeleton; nothing is run."""
    if not agent:
        return _skeleton(topic, out, as_json=as_json)
    from autoresearch.commands.plan_agent import ask_for_plan, chosen_agent
    from autoresearch.core.plans.plan_text import plan_lines
    from autoresearch.lab.plans.draft import read_topic
    from autoresearch.lab.plans.write import new_plan_dir, out_path
    from autoresearch.records.rundir import write_atomically

    parts = real_parts()
    read_topic(topic)  # before anybody is asked
    path = out_path(topic, out).absolute()
    plan_dir = new_plan_dir(path, parts)
    chosen = chosen_agent(agent, set_)
    found = ask_for_plan(chosen, topic.absolute(), path, plan_dir, parts)
    write_atomically(path, found.text.encode())
    assert found.draft.plan is not None
    payload = {
        "plan": plan_dir.slug,
        "file": str(path),
        "state": "draft",
        "agent": agent,
        "stages": [stage.name for stage in found.draft.plan.stages],
        "usd": found.usage.usd,
        "tokens": found.usage.tokens,
        "turn": str(found.turn),
        "next": [f"autoresearch plan approve {path}"],
    }
    lines = [f"{agent} wrote {path}:", *plan_lines(found.draft.plan)]
    output.emit("plan write", payload, as_json=as_json, lines=lines[: output.MAX_LINES])
    return 0


def _skeleton(topic: Path, out: str, *, as_json: bool) -> int:
    """Write the skeleton of a plan beside its topic, to be filled in by hand."""
    from autoresearch.lab.plans.write import out_path, skeleton
    from autoresearch.records.rundir import write_atomically

    path = out_path(topic, out)
    text = skeleton(topic, path)
    write_atomically(path, text.encode())
    payload = {"plan": str(path.absolute()), "state": "draft", "next": [f"autoresearch plan check {path}"]}
    output.emit("plan write", payload, as_json=as_json, lines=[f"wrote {path}; fill in what says TODO"])
    return 0


def check(plan: Plan, as_json: Json = False) -> int:
    """Parse and check a plan, down to the campaign of each stage; changes nothing."""
    from autoresearch.core.plans.plan_text import plan_lines
    from autoresearch.lab.plans.draft import raise_on_faults, read_draft

    draft = read_draft(Path(plan), real_parts())
    found = raise_on_faults(draft)
    payload = {
        "plan": draft.slug,
        "file": str(draft.path),
        "state": "draft",
        "stages": [stage.name for stage in found.stages],
        "sha256": draft.digest,
        "findings": [str(finding) for finding in draft.findings],
        "next": [f"autoresearch plan approve {plan}"],
    }
    lines = [*(str(finding) for finding in draft.findings), *plan_lines(found)]
    output.emit("plan check", payload, as_json=as_json, lines=lines[: output.MAX_LINES])
    return 0


def approve(
    plan: Plan,
    note: Annotated[str, typer.Option(help="Goes into git with the approval.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> int:
    """Fix a plan in git, with the code and every file that it names, and say yes to exactly that."""
    from autoresearch.lab.plans import register
    from autoresearch.lab.plans.draft import raise_on_faults

    parts = real_parts()
    plan_dir, draft = register.open_plan(plan, parts)
    if draft is None:
        draft = register.draft_of(_need(plan_dir), parts)
    found = raise_on_faults(draft)
    if not yes and not _agreed(plan, plan_dir, found, as_json=as_json):
        return 0
    view = register.register(plan_dir, draft, parts)
    register.need_same(plan_dir, view, draft)
    view = register.approve(plan_dir, view, parts, note=note)
    payload = _version(plan_dir, view) | {"next": [f"autoresearch plan run {plan_dir.slug}"]}
    lines = [
        f"version {view.version.number} of {plan_dir.slug} in {plan_dir.directory} is approved, "
        f"fixed in {view.version.commit[:12]}",
        f"git log {plan_dir.branch}",
    ]
    output.emit("plan approve", payload, as_json=as_json, lines=lines)
    return 0


def revise(
    plan: Plan,
    reason: Annotated[str, typer.Option(help="Why; goes into git before the next run.")],
    at: Annotated[str, typer.Option(metavar="STAGE", help="Where it goes on.")] = "",
    agent: Agent = "",
    set_: Set = None,
    as_json: Json = False,
) -> int:
    """Register what the plan's file says now as its next version; with --agent, an agent writes it anew first."""
    from autoresearch.commands.plan_agent import chosen_agent, rewritten
    from autoresearch.lab.plans import register

    parts = real_parts()
    plan_dir, draft = register.open_plan(plan, parts)
    if draft is None:
        draft = register.draft_of(_need(plan_dir), parts)
    if agent:
        chosen = chosen_agent(agent, set_)
        draft = rewritten(plan_dir, draft, chosen, reason, parts)
    view = register.revise(plan_dir, draft, parts, reason=reason, at=at)
    payload = _version(plan_dir, view) | {"next": [f"autoresearch plan approve {plan_dir.slug}"]}
    name = f"{plan_dir.slug} in {plan_dir.directory}"
    lines = [f"version {view.version.number} of {name} is registered, and goes on with {view.next}"]
    output.emit("plan revise", payload, as_json=as_json, lines=lines)
    return 0


def _agreed(typed: str, plan_dir: PlanDir, plan: StagedPlan, *, as_json: bool) -> bool:
    """Show the plan; ask on a terminal, elsewhere say how to agree and change nothing."""
    from autoresearch.core.plans.plan_text import plan_lines

    if output.agent_or_pipe() or as_json:
        view = _registered(plan_dir)
        payload = {
            "plan": plan_dir.slug,
            "state": view.state.value if view else "draft",
            "told": list(plan_lines(plan)),
            "next": [f"autoresearch plan approve {typed} --yes"],
        }
        output.emit(
            "plan approve", payload, as_json=as_json, lines=["nothing was changed; the plan is:", *plan_lines(plan)]
        )
        return False
    for line in plan_lines(plan):
        output.prose(line)
    return bool(typer.confirm("Fix it in git and say yes to it?", default=True))


def _registered(plan_dir: PlanDir) -> PlanView | None:
    from autoresearch.lab.plans.plan_dir import read_view

    return read_view(plan_dir) if plan_dir.tip else None


def _need(plan_dir: PlanDir) -> PlanView:
    from autoresearch.lab.plans.plan_dir import read_view

    return read_view(plan_dir)


def _version(plan_dir: PlanDir, view: PlanView) -> dict[str, Any]:
    return {
        "plan": plan_dir.slug,
        "state": view.state.value,
        "version": view.version.number,
        "commit": view.version.commit,
        "branch": plan_dir.branch,
        "directory": str(plan_dir.directory),
        "sha256": view.version.digest,
        "stage": view.next,
    }
