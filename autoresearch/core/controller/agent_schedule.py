"""What a campaign asks of its coding agents next: a fix that is owed, the edit of a code idea, or new ideas.

Several jobs are under way at a time: edits and fixes, guards beside them, and one turn for ideas.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from autoresearch.core.agents.agent import BUDGET_TURNS, TurnRole
from autoresearch.core.agents.turns import AGENT, EDIT, FIX, GUARD, HYBRID, PROPOSE, AgentJob, ProposedIdea
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import edits_of, proved_edits
from autoresearch.core.controller import runs_and_retries
from autoresearch.core.controller.rules import spent, stand_at, too_late, untried
from autoresearch.core.text.numbers import counted

AHEAD = 3  # ideas that wait for their first run, edited or not
STALLED = 6  # ideas in a row without a gain, after which another kind is asked for
MOST_FAILED = 3  # turns of an agent for new ideas in a row that came to nothing


def able(state: CampaignState) -> tuple[str, ...]:
    """The agents that can be given a job now: neither suspended nor at a limit."""
    out = {*state.research.suspended, *(job.agent for job in state.research.waiting)}
    return tuple(one for one in state.spec.research.agents if one not in out)


def at_work(state: CampaignState) -> list[AgentJob]:
    """The jobs under way, without those that wait for the end of a usage limit or an outage."""
    return [job for job in state.research.jobs.values() if job.waits is None]


def waiting(state: CampaignState) -> list[ProposedIdea]:
    """Proposals that are not yet ideas of the campaign and were not skipped, oldest first."""
    return [one for one in state.research.proposed.values() if one.hypothesis.slug not in state.unwanted]


def proposal(state: CampaignState, slug: str) -> Hypothesis:
    """The proposal of this name that is not yet an idea of the campaign."""
    return next(one.hypothesis for one in waiting(state) if one.hypothesis.slug == slug)


def parent_of(state: CampaignState, hypothesis: Hypothesis) -> Idea | None:
    """The idea whose code an edit changes; None where it is gone."""
    if hypothesis.parent in (BEST, ""):
        return state.base
    return state.by_slug(BASELINE if hypothesis.parent == BASELINE else hypothesis.parent)


def next_job(state: CampaignState, now: float) -> AgentJob | None:
    """The next job to begin beside those under way; None if there is none, or it may not be begun now."""
    jobs = state.research.jobs
    running = state.phase in (CampaignPhase.RUNNING, CampaignPhase.WAITING) and bool(state.spec.objective.metric)
    if running and (merge := unguarded(state)) and (guard := AgentJob(GUARD, merge.slug)).name not in jobs:
        return _in_own_worktrees(state, guard)
    if not (running and _may_ask(state)):
        return None
    if (idea := next_fix(state, now)) is not None:
        return _given_to(state, AgentJob(FIX, idea.slug), state.research.editor_of(idea.hypothesis))
    if state.spec.proposer.name not in (AGENT, HYBRID):
        return None
    unmade = [one.hypothesis for one in waiting(state) if not one.made]
    free = [one for one in unmade if AgentJob(EDIT, one.slug).name not in jobs]
    most, coming, there = most_editors(state), _coming(state), len(untried(state))
    fixes = sum(job.kind == FIX for job in jobs.values())
    needed = coming + there + fixes < most and _idea_needed(state, now, coming)
    if free and needed and _has_editor(state):
        parent = parent_of(state, free[0])
        job = AgentJob(EDIT, free[0].slug, parent=parent.slug if parent else "")
        return _given_to(state, job, state.research.agent_of(free[0]))
    asked = any(job.kind == PROPOSE for job in at_work(state))
    coming += len(free)
    if asked or coming + there >= most or not _idea_needed(state, now, coming):
        return None
    return _given_to(state, AgentJob(PROPOSE), next_agent(state, able(state)))


def next_agent(state: CampaignState, agents: Sequence[str]) -> str:
    """Who is asked for ideas next, of the agents that can be asked: they take turns."""
    turns = enumerate(state.research.turns.values())
    last = {turn.agent: number for number, turn in turns if turn.role == TurnRole.PROPOSE}
    return min(agents, key=lambda agent: last.get(agent, -1))


def _coming(state: CampaignState) -> int:
    """The ideas that are edited or being edited; one that waits for a usage limit is nothing to count on."""
    return sum(one.made for one in waiting(state)) + sum(job.kind == EDIT for job in at_work(state))


def _given_to(state: CampaignState, agent_job: AgentJob, agent: str) -> AgentJob | None:
    """The job for this agent, or another where it cannot be asked now; None where its cost is promised to others."""
    agents = able(state)
    agent = agent if agent in agents else next_agent(state, agents)
    usd = _turn_usd(state, _turns(state, agent_job))
    crowded = state.research.jobs and (usd == 0.0 or _tokens_left(state) <= 0)
    return None if crowded else _in_own_worktrees(state, replace(agent_job, agent=agent, usd=usd))


def _in_own_worktrees(state: CampaignState, agent_job: AgentJob) -> AgentJob:
    """The job in the worktrees of an editor who has no other."""
    busy = {one.editor for one in state.research.jobs.values()}
    return replace(agent_job, editor=next(number for number in range(1, len(busy) + 2) if number not in busy))


def _turn_usd(state: CampaignState, turns: int) -> float | None:
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

    promised = math.fsum(promise(job.usd or 0.0, _turns(state, job)) for job in state.research.jobs.values())
    left, usual = budget - (usage.usd or 0.0) - promised, most or budget / BUDGET_TURNS
    return 0.0 if promised and left < promise(usual, turns) else max(0.01, min(left, usual))


def _turns(state: CampaignState, agent_job: AgentJob) -> int:
    """The turns that a job may still take: an edit is reviewed, and mended where the guard fails."""
    spec = state.spec.research
    most = 1 + spec.review + (spec.max_fixes if spec.guard else 0) if agent_job.kind == EDIT else 1
    return max(1, most - sum(name in state.research.turns for name in agent_job.turns))


def _tokens_left(state: CampaignState) -> float:
    """What is left of the budget of tokens if each job under way takes as many as a turn did so far."""
    budget, turns = state.spec.rules.budget_tokens, state.research.turns
    used = state.research.usage.tokens or 0
    return math.inf if budget is None else budget - used - used / max(1, len(turns)) * len(state.research.jobs)


def _may_ask(state: CampaignState) -> bool:
    return bool(able(state)) and not state.stop_mode


def _has_editor(state: CampaignState) -> bool:
    """Whether one more edit or fix may be under way; one that waits for a usage limit holds up nobody."""
    return sum(job.kind in (EDIT, FIX) for job in at_work(state)) < most_editors(state)


def most_editors(state: CampaignState) -> int:
    """Edits and fixes at a time, and ideas that wait for their first run, at most."""
    return state.spec.research.editors or max(AHEAD, state.spec.parallel)


def unguarded(state: CampaignState) -> Idea | None:
    """The merge of edits that has not been through the guard yet."""
    return None if state.stop_mode or state.merged is state.tip else state.merged


def next_fix(state: CampaignState, now: float) -> Idea | None:
    """The idea that an agent should fix next; None if there is none, or none may be asked."""
    if not (_may_ask(state) and _has_editor(state)) or spent(state) or too_late(state, now):
        return None
    owed = (idea for idea in state.ideas if runs_and_retries.fixable(state, idea))
    return next((idea for idea in owed if AgentJob(FIX, idea.slug).name not in state.research.jobs), None)


def fix_expected(state: CampaignState, now: float) -> bool:
    """Whether an idea waits to be fixed, and a run of it would still be in time."""
    if too_late(state, now):
        return False
    return any(job.kind == FIX for job in state.research.jobs.values()) or next_fix(state, now) is not None


def idea_expected(state: CampaignState, now: float) -> bool:
    """Whether an agent may still come up with an idea, without anybody's help."""
    if not state.spec.research.agent:
        return False
    made = any(one.made for one in waiting(state))
    return bool(state.research.jobs) or made or next_job(state, now) is not None


def unwanted_jobs(state: CampaignState) -> list[str]:
    """The names of the jobs under way whose outcome nobody wants: of skipped ideas, and after `campaign stop`."""
    jobs = state.research.jobs
    return [name for name, job in jobs.items() if state.stop_mode or (job.kind != GUARD and job.slug in state.unwanted)]


def why_dry(state: CampaignState) -> str:
    """Why no more ideas come, in words."""
    return "; ".join(state.research.suspended.values()) or "proposer exhausted"


def stagnation_words(state: CampaignState) -> str:
    """`the last 7 ideas gained nothing; tried so far: config 5 (lr 3, group_size 2), code 2 (reward.py 2)`; else ""."""
    base = state.base
    inside = edits_of(state, base) if base else frozenset()
    tried = [idea for idea in state.ideas if idea.index > 1 and idea.decided and not idea.hypothesis.merges]
    since = max((idea.decided for idea in tried if idea.index in inside or idea.kept), default=0.0)
    barren = sum(idea.decided > since for idea in tried)
    if barren < STALLED:
        return ""
    kinds = defaultdict[str, Counter[str]](Counter)  # of what they changed: keys or files
    number = Counter[str]()
    for hypothesis in (idea.hypothesis for idea in tried):
        kind = hypothesis.kind or ("config" if hypothesis.overrides else "code")
        number[kind] += 1
        kinds[kind].update(tuple(hypothesis.overrides) or hypothesis.paths or ("elsewhere",))
    parts = {kind: ", ".join(f"{what} {n}" for what, n in kinds[kind].most_common(6)) for kind in kinds}
    words = ", ".join(f"{kind} {n} ({parts[kind]})" for kind, n in number.most_common())
    return f"the last {barren} ideas gained nothing; tried so far: {words}"


def how_agents_did(state: CampaignState) -> list[str]:
    """Of each agent how many ideas it had, and how many were kept; and whether nothing was gained of late."""
    proved, found = proved_edits(state), list[str]()
    for agent in state.spec.research.agents:
        own = [idea for idea in state.ideas if idea.attempted and state.research.agent_of(idea.hypothesis) == agent]
        kept = sum(idea.kept or idea.index in proved for idea in own)
        found += [f"{agent}: {counted(len(own), 'idea')}, {kept} kept or in a confirmed tip"] if own else []
    return found + ([f"{stalled}: another kind is asked for"] if (stalled := stagnation_words(state)) else [])


def fruitless(state: CampaignState) -> tuple[str, str] | None:
    """An agent to suspend, and why: none of its last ideas could be tried, and they cost money; None if there is none.

    What records do not say the agent of, counts for every one.
    """
    research = state.research
    open_ones = {name for one in waiting(state) for name in one.hypothesis.turns[:1] or ("",)}
    for agent in able(state):
        barren = [name for who, name in research.barren if who in (agent, "") and name not in open_ones]
        if len(barren) >= MOST_FAILED:
            skipped = (reason for one, reason in reversed(state.skipped) if one.proposer == AGENT)
            why = research.why_failed.get(agent) or next(skipped, "none was tried")
            return agent, f"{agent} had no idea that could be tried {len(barren)} times in a row: {why}"
    return None


def _idea_needed(state: CampaignState, now: float, coming: int) -> bool:
    """Whether another idea would be tried, beside so many that are being edited: neither now nor then a rule is met."""
    baseline = state.baseline
    if baseline is None or not baseline.values or stand_at(state, now, conceived=True, coming=coming).met:
        return False
    return not too_late(state, now)
