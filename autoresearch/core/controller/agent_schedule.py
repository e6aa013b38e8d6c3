"""What a campaign asks of its coding agents next: a fix that is owed, the edit of a code idea, or new ideas.

Several jobs are under way at a time: edits and fixes, guards beside them, and one turn for ideas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoresearch.core.agents.agent import BUDGET_TURNS, AgentSpec, TurnRole
from autoresearch.core.agents.turns import AGENT, HYBRID, ProposedIdea
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller import scheduler
from autoresearch.core.controller.actions import AgentJob
from autoresearch.core.controller.rules import spent, stand_at, too_late, untried

AHEAD = 3  # ideas that wait for their first run, edited or not
MOST_FAILED = 3  # turns of an agent for new ideas in a row that came to nothing


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """The coding agents as the controller sees them."""

    jobs: tuple[AgentJob, ...] = ()  # under way, or their outcome waits to be taken in
    done: bool = False  # the outcome of one of them can be taken in
    waiting: frozenset[str] = frozenset()  # the names of those that wait for the end of a usage limit or an outage
    suspended: Mapping[str, str] = field(default_factory=dict)  # by agent: why it is not asked before somebody resumes

    def under_way(self, agent_job: AgentJob) -> bool:
        """Whether this job is being done, whoever does it."""
        return any(agent_job.name == one.name for one in self.jobs)

    def able(self, agent_spec: AgentSpec) -> tuple[str, ...]:
        """The agents that can be given a job now."""
        limited = {job.agent for job in self.jobs if job.name in self.waiting}
        return tuple(one for one in agent_spec.agents if one not in self.suspended and one not in limited)


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


def next_job(state: CampaignState, agent_status: AgentStatus, now: float) -> AgentJob | None:
    """The next job to begin beside those under way; None if there is none, or it may not be begun now."""
    running = state.phase in (CampaignPhase.RUNNING, CampaignPhase.WAITING) and bool(state.spec.objective.metric)
    if running and (merge := unguarded(state)) and not agent_status.under_way(AgentJob(guard=merge)):
        return AgentJob(guard=merge)
    if not (running and _may_ask(state, agent_status)):
        return None
    if (idea := next_fix(state, agent_status, now)) is not None:
        return _given_to(state, agent_status, AgentJob(fix=idea), state.research.editor_of(idea.hypothesis))
    if state.spec.proposer.name not in (AGENT, HYBRID):
        return None
    able = agent_status.able(state.spec.research)
    unedited = [one.hypothesis for one in waiting(state) if not one.made]
    unedited = [one for one in unedited if not agent_status.under_way(AgentJob(edit=one))]
    kept_back = {one.slug for one in held(state)}
    free = [one for one in unedited if one.slug not in kept_back]
    most, coming, there = most_editors(state), _coming(state, agent_status), len(untried(state))
    fixes = sum(bool(job.fix) for job in agent_status.jobs)
    needed = coming + there + fixes < most and _idea_needed(state, now, coming)
    if free and needed and _has_editor(state, agent_status):
        return _given_to(state, agent_status, AgentJob(edit=free[0]), state.research.agent_of(free[0]))
    asked = any(job.proposes and job.name not in agent_status.waiting for job in agent_status.jobs)
    coming += len(free)
    if kept_back or asked or coming + there >= most or not _idea_needed(state, now, coming):
        return None
    return _given_to(state, agent_status, AgentJob(ideas=state.spec.research.ideas), next_agent(state, able))


def next_agent(state: CampaignState, able: Sequence[str]) -> str:
    """Who is asked for ideas next, of the agents that can be asked: they take turns."""
    turns = enumerate(state.research.turns.values())
    last = {turn.agent: number for number, turn in turns if turn.role == TurnRole.PROPOSE}
    return min(able, key=lambda agent: last.get(agent, -1))


def _coming(state: CampaignState, agent_status: AgentStatus) -> int:
    """The ideas that are edited or being edited; one that waits for a usage limit is nothing to count on."""
    edits = [job for job in agent_status.jobs if job.edit and job.name not in agent_status.waiting]
    return sum(one.made for one in waiting(state)) + len(edits)


def _given_to(state: CampaignState, agent_status: AgentStatus, agent_job: AgentJob, agent: str) -> AgentJob | None:
    """The job for this agent, or another where it cannot be asked now; None where its cost is promised to others."""
    able = agent_status.able(state.spec.research)
    agent = agent if agent in able else next_agent(state, able)
    usd = _turn_usd(state, agent_status, _turns(state, agent_job))
    crowded = agent_status.jobs and (usd == 0.0 or _tokens_left(state, agent_status) <= 0)
    return None if crowded else replace(agent_job, agent=agent, usd=usd)


def _turn_usd(state: CampaignState, agent_status: AgentStatus, turns: int) -> float | None:
    """What each of the next job's turns may cost, which is promised to it until it is over; None: there is no limit.

    Of a job's later turns, which few jobs need, only what a turn cost so far is promised. 0 where less than usual is
    left beside what is promised to others: what they really cost may leave more.
    """
    most, budget, usage = state.spec.research.turn_usd, state.spec.rules.budget_usd, state.research.usage
    if budget is None:
        return most
    told = sum(turn.usage.usd is not None for turn in state.research.turns.values())
    seen = (usage.usd or 0.0) / told if told else budget

    def promise(usd: float, turns: int) -> float:
        return usd + (turns - 1) * min(usd, seen)

    promised = math.fsum(promise(job.usd or 0.0, _turns(state, job)) for job in agent_status.jobs)
    left, usual = budget - (usage.usd or 0.0) - promised, most or budget / BUDGET_TURNS
    return 0.0 if promised and left < promise(usual, turns) else max(0.01, min(left, usual))


def _turns(state: CampaignState, agent_job: AgentJob) -> int:
    """The turns that a job may take: an edit is reviewed, and mended where the guard fails."""
    spec = state.spec.research
    return 1 + spec.review + (spec.max_fixes if spec.guard else 0) if agent_job.edit else 1


def _tokens_left(state: CampaignState, agent_status: AgentStatus) -> float:
    """What is left of the budget of tokens if each job under way takes as many as a turn did so far."""
    budget, turns = state.spec.rules.budget_tokens, state.research.turns
    used = state.research.usage.tokens or 0
    return math.inf if budget is None else budget - used - used / max(1, len(turns)) * len(agent_status.jobs)


def _may_ask(state: CampaignState, agent_status: AgentStatus) -> bool:
    return bool(agent_status.able(state.spec.research)) and not state.stop_mode


def _has_editor(state: CampaignState, agent_status: AgentStatus) -> bool:
    """Whether one more edit or fix may be under way; one that waits for a usage limit holds up nobody."""
    busy = [job for job in agent_status.jobs if (job.edit or job.fix) and job.name not in agent_status.waiting]
    return len(busy) < most_editors(state)


def most_editors(state: CampaignState) -> int:
    """Edits and fixes at a time, and ideas that wait for their first run, at most."""
    return state.spec.research.editors or max(AHEAD, state.spec.parallel)


def unguarded(state: CampaignState) -> Idea | None:
    """The merge of edits that has not been through the guard yet."""
    return None if state.stop_mode or state.merged is state.tip else state.merged


def next_fix(state: CampaignState, agent_status: AgentStatus, now: float) -> Idea | None:
    """The idea that an agent should fix next; None if there is none, or none may be asked."""
    if not (_may_ask(state, agent_status) and _has_editor(state, agent_status)) or spent(state) or too_late(state, now):
        return None
    owed = (idea for idea in state.ideas if scheduler.fixable(state, idea))
    return next((idea for idea in owed if not agent_status.under_way(AgentJob(fix=idea))), None)


def fix_expected(state: CampaignState, agent_status: AgentStatus, now: float) -> bool:
    """Whether an idea waits to be fixed, and a run of it would still be in time."""
    if too_late(state, now):
        return False
    return any(job.fix for job in agent_status.jobs) or next_fix(state, agent_status, now) is not None


def idea_expected(state: CampaignState, agent_status: AgentStatus, now: float) -> bool:
    """Whether an agent may still come up with an idea, without anybody's help."""
    if not state.spec.research.agent:
        return False
    made = any(one.made for one in waiting(state))
    return bool(agent_status.jobs) or made or next_job(state, agent_status, now) is not None


def unwanted_jobs(state: CampaignState, agent_status: AgentStatus) -> list[str]:
    """The names of the jobs under way whose outcome nobody wants: of skipped ideas, and after `campaign stop`."""
    if state.stop_mode:
        return [job.name for job in agent_status.jobs]
    subjects = ((job, job.edit or job.fix) for job in agent_status.jobs)
    return [job.name for job, subject in subjects if subject is not None and subject.slug in state.unwanted]


def why_dry(state: CampaignState, agent_status: AgentStatus) -> str:
    """Why no more ideas come, in words."""
    if names := [one.slug for one in held(state)]:
        line = f"autoresearch campaign approve {names[0]} --campaign {state.spec.name}"
        return f"{', '.join(names)} wait{'s' if len(names) == 1 else ''} for a person: {line}"
    return "; ".join(agent_status.suspended.values()) or "proposer exhausted"


def fruitless(state: CampaignState, agent_status: AgentStatus) -> tuple[str, str] | None:
    """An agent to suspend, and why: none of its last ideas could be tried, and they cost money; None if there is none.

    What records do not say the agent of, counts for every one.
    """
    research = state.research
    open_ones = {name for one in waiting(state) for name in one.hypothesis.turns[:1] or ("",)}
    for agent in agent_status.able(state.spec.research):
        barren = [name for who, name in research.barren if who in (agent, "") and name not in open_ones]
        if len(barren) >= MOST_FAILED:
            why = next((reason for one, reason in reversed(state.skipped) if one.proposer == AGENT), "none was tried")
            return agent, f"{agent} had no idea that could be tried {len(barren)} times in a row: {why}"
    return None


def _idea_needed(state: CampaignState, now: float, coming: int) -> bool:
    """Whether another idea would be tried, beside so many that are being edited: neither now nor then a rule is met."""
    baseline = state.baseline
    if baseline is None or not baseline.values or stand_at(state, now, conceived=True, coming=coming).met:
        return False
    return not too_late(state, now)
