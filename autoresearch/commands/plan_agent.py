"""Where `autoresearch plan` meets its agent: the one module that wires a real agent to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from autoresearch.errors import UsageError

if TYPE_CHECKING:
    from autoresearch.core.agents.agent import AgentSpec
    from autoresearch.core.plans.view import PlanView
    from autoresearch.lab.parts import Parts
    from autoresearch.lab.plans.ask_agent import WrittenPlan
    from autoresearch.lab.plans.draft import Draft
    from autoresearch.lab.plans.plan_dir import PlanDir
    from autoresearch.lab.plans.plan_request import PlanAuthor
    from autoresearch.lab.plans.run_stages import Rewrite

Chosen: TypeAlias = Mapping[str, Any]
"""The agent and what was set for it, by the keys of a campaign file."""


def chosen_agent(agent: str, pairs: Sequence[str] | None) -> Chosen:
    """The agent and its options from the command line. UsageError for an unknown key or a bad value."""
    from autoresearch.lab.campaign_setup.agent_options import TURN_KEYS
    from autoresearch.lab.key_values import parse_pairs

    values = {key: value for key, value in parse_pairs(pairs or (), TURN_KEYS).items() if value is not None}
    if values and not agent:
        raise UsageError(f"--set {next(iter(values))}= is about an agent, and none is named", hint="--agent NAME")
    return {"agent": agent, **values}


def ask_for_plan(
    chosen: Chosen,
    topic: Path,
    path: Path,
    plan_dir: PlanDir,
    parts: Parts,
    *,
    view: PlanView | None = None,
    reason: str = "",
) -> WrittenPlan:
    """Have an agent write the plan that will lie at `path`. ResearcherFailed if it writes none."""
    from autoresearch.lab.plans.ask_agent import write_plan
    from autoresearch.lab.plans.plan_request import PlanRequest

    return write_plan(PlanRequest(topic, path, plan_dir, author_of(_spec(chosen), parts), view, reason), parts)


def rewriting(plan_dir: PlanDir, chosen: Chosen, parts: Parts) -> Rewrite | None:
    """The function that has a plan rewritten while it runs; None if no agent was named."""
    from autoresearch.lab.plans import register

    if not chosen.get("agent"):
        return None
    return lambda view, reason: rewritten(plan_dir, register.draft_of(view, parts), chosen, reason, parts)


def rewritten(plan_dir: PlanDir, draft: Draft, chosen: Chosen, reason: str, parts: Parts) -> Draft:
    """Have an agent rewrite the plan, given its results; the old version stays in git."""
    from autoresearch.lab.plans import register
    from autoresearch.lab.plans.plan_dir import read_view
    from autoresearch.lab.plans.write import topic_of
    from autoresearch.records.rundir import write_atomically

    view = read_view(plan_dir)
    register.need_same(plan_dir, view, draft)
    register.need_between_stages(view)
    plan = ask_for_plan(chosen, topic_of(draft), draft.path, plan_dir, parts, view=view, reason=reason)
    write_atomically(draft.path, plan.text.encode())
    return plan.draft


def _spec(chosen: Chosen) -> AgentSpec:
    """What was typed, checked as a campaign's own keys are."""
    from autoresearch.lab.campaign_setup.agent_options import turn_spec

    try:
        return turn_spec(chosen["agent"], {key: value for key, value in chosen.items() if key != "agent"})
    except ValueError as error:
        raise UsageError(f"--set {error}") from None


def author_of(agent_spec: AgentSpec, parts: Parts) -> PlanAuthor:
    """The agent that writes a plan. UsageError or EnvironmentUnusable if it cannot be used here."""
    import threading

    from autoresearch.lab.agents import agent_factory
    from autoresearch.lab.agents.turn import run_turn
    from autoresearch.lab.plans.plan_request import PlanAuthor

    agent_factory.check(agent_spec, parts.environ)
    agent, environment = agent_factory.call(agent_spec, parts.environ)
    stop = threading.Event()
    return PlanAuthor(
        agent_spec.agent, lambda turn: run_turn(agent, turn, environment, stop), agent_spec.bounds, agent.traits.resumes
    )
