"""What a campaign asks of its coding agent next: a fix that is owed, the edit of a code idea, or new ideas."""

from __future__ import annotations

from dataclasses import dataclass

from autoresearch.core.agents.turns import AGENT, HYBRID, ProposedIdea
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller import scheduler
from autoresearch.core.controller.actions import AgentJob
from autoresearch.core.controller.rules import stand_at, too_late

MOST_FAILED = 3  # turns for new ideas in a row that came to nothing


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """The coding agent as the controller sees it."""

    busy: bool = False  # a job is under way, or its outcome waits to be taken in
    done: bool = False  # its outcome can be taken in
    suspended: str = ""  # why it is not asked before somebody resumes the campaign


NO_AGENT = AgentStatus()


def waiting(state: CampaignState) -> list[ProposedIdea]:
    """Proposals that are not yet ideas of the campaign and were not skipped, oldest first."""
    return [one for one in state.research.proposed.values() if one.hypothesis.slug not in state.unwanted]


def held(state: CampaignState) -> list[Hypothesis]:
    """The proposals whose edit waits for a person's approval."""
    hold = state.spec.research.hold if state.research.hold is None else state.research.hold
    if not hold:
        return []
    unmade = [one.hypothesis for one in waiting(state) if not one.made]
    return [one for one in unmade if one.slug not in state.research.approved]


def _may_ask(state: CampaignState, agent_status: AgentStatus) -> bool:
    return bool(state.spec.research.agent) and not (agent_status.suspended or state.stop_mode)


def next_job(state: CampaignState, agent_status: AgentStatus, now: float) -> AgentJob | None:
    """The next job; None if there is none, or it may not be started now."""
    running = state.phase in (CampaignPhase.RUNNING, CampaignPhase.WAITING)
    if running and (merge := unguarded(state)):
        return AgentJob(guard=merge)
    if not (_may_ask(state, agent_status) and running):
        return None
    if (idea := next_fix(state, agent_status, now)) is not None:
        return AgentJob(fix=idea)
    if state.spec.proposer.name not in (AGENT, HYBRID) or not _idea_needed(state, now):
        return None
    proposals = waiting(state)
    if any(one.made for one in proposals):
        return None
    kept_back = {one.slug for one in held(state)}
    for one in proposals:
        if one.hypothesis.slug not in kept_back:
            return AgentJob(edit=one.hypothesis)
    return None if kept_back else AgentJob()


def unguarded(state: CampaignState) -> Idea | None:
    """The merge of edits that has not been through the guard yet."""
    return None if state.stop_mode or state.merged is state.tip else state.merged


def next_fix(state: CampaignState, agent_status: AgentStatus, now: float) -> Idea | None:
    """The idea that the agent should fix next; None if there is none, or it may not be asked."""
    if not _may_ask(state, agent_status) or spent(state) or too_late(state, now):
        return None
    return next((idea for idea in state.ideas if scheduler.fixable(state, idea)), None)


def fix_expected(state: CampaignState, agent_status: AgentStatus, now: float) -> bool:
    """Whether an idea waits to be fixed, and a run of it would still be in time."""
    if too_late(state, now):
        return False
    return next_fix(state, agent_status, now) is not None or (agent_status.busy and bool(state.research.fixing))


def idea_expected(state: CampaignState, agent_status: AgentStatus, now: float) -> bool:
    """Whether the agent may still come up with an idea, without anybody's help."""
    if not state.spec.research.agent:
        return False
    made = any(one.made for one in waiting(state))
    return agent_status.busy or made or next_job(state, agent_status, now) is not None


def why_dry(state: CampaignState, agent_status: AgentStatus) -> str:
    """Why no more ideas come, in words."""
    if names := [one.slug for one in held(state)]:
        line = f"autoresearch campaign approve {names[0]} --campaign {state.spec.name}"
        return f"{', '.join(names)} wait{'s' if len(names) == 1 else ''} for a person: {line}"
    return agent_status.suspended or "proposer exhausted"


def fruitless(state: CampaignState, agent_status: AgentStatus) -> str:
    """Why the agent should be suspended: none of its last ideas could be tried, and they cost money; "" if not."""
    times = state.research.requests
    if not state.spec.research.agent or agent_status.suspended or times < MOST_FAILED or waiting(state):
        return ""
    why = next((reason for one, reason in reversed(state.skipped) if one.proposer == AGENT), "none was tried")
    return f"{state.spec.research.agent} had no idea that could be tried {times} times in a row: {why}"


def spent(state: CampaignState) -> bool:
    """Whether the agent's budget is used up."""
    rules, usage = state.spec.rules, state.research.usage
    money = rules.budget_usd is not None and (usage.usd or 0.0) >= rules.budget_usd
    return money or (rules.budget_tokens is not None and (usage.tokens or 0) >= rules.budget_tokens)


def _idea_needed(state: CampaignState, now: float) -> bool:
    """Whether another idea would be tried: the baseline is measured, and no rule is met."""
    baseline = state.baseline
    if baseline is None or not baseline.values or stand_at(state, now, conceived=True).met:
        return False
    return not too_late(state, now)
