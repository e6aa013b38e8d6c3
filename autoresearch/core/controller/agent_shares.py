"""Which of several coding agents is asked for the next ideas: who gains more for its money is asked more often.

An agent's rate is what its ideas gained over what all its turns cost, those that came to nothing included. Few ideas
say little: each agent is first given some ideas at the rate of all together. The share of an agent is its part of the
sum of all rates, and never less than LEAST of an equal one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from autoresearch.core.campaign.hypothesis import BASELINE
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import effects
from autoresearch.core.metrics.objective import Direction

LEAST = 0.25  # of an equal share
GIVEN = 4  # ideas at the rate of all, before an agent's own count
WINDOW = 8  # requests that the shares are kept in, for each agent


def next_agent(state: CampaignState, able: Collection[str]) -> str:
    """The agent to ask for ideas, of those that can be asked: who is furthest behind its share."""
    agents = [agent for agent in state.spec.research.agents if agent in able]
    if len(agents) == 1:
        return agents[0]
    due, names = shares(state), state.spec.research.agents
    latest = [agent for agent in state.research.requested_of if agent in names][-WINDOW * len(names) :]
    asked = Counter(latest)
    return max(agents, key=lambda agent: due[agent] * (len(latest) + 1) - asked[agent])


def shares(state: CampaignState) -> Mapping[str, float]:
    """Each agent's part of the requests for ideas."""
    agents = state.spec.research.agents
    gained, cost = _gains(state), _costs(state)
    ideas = sum(state.research.agent_of(idea.hypothesis) in agents for idea in state.ideas)
    rate = sum(gained.values()) / sum(cost.values()) if sum(cost.values()) else 0.0
    given = GIVEN * sum(cost.values()) / max(1, ideas)
    rates = {agent: (gained[agent] + rate * given) / (cost[agent] + given) if rate else 1.0 for agent in agents}
    least = LEAST / len(agents)
    return {agent: least + (1 - LEAST) * rates[agent] / sum(rates.values()) for agent in agents}


def _gains(state: CampaignState) -> Mapping[str, float]:
    """What the ideas of each agent gained: in sd of a run where the search is by tip, else in the metric's unit."""
    found = dict.fromkeys(state.spec.research.agents, 0.0)
    for idea in state.ideas:
        agent = state.research.agent_of(idea.hypothesis)
        if agent in found and not idea.live:
            found[agent] += max(0.0, _gain(state, idea))
    return found


def _gain(state: CampaignState, idea: Idea) -> float:
    if state.searches_by_tip:
        effect = effects(state).get(idea.index)
        return effect.mean if effect else 0.0
    parent = state.by_slug(idea.parent or BASELINE)
    if not idea.kept or idea.value is None or parent is None or parent.value is None:
        return 0.0
    change = idea.value - parent.value
    return change if state.spec.objective.direction is Direction.MAXIMIZE else -change


def _costs(state: CampaignState) -> Mapping[str, float]:
    """What the turns of each agent cost: USD where all of them say it of every turn that had an answer, else turns."""
    turns = [turn for turn in state.research.turns.values() if turn.agent in state.spec.research.agents]
    priced = all(turn.usage.usd is not None for turn in turns if not turn.fault)
    found = dict.fromkeys(state.spec.research.agents, 0.0)
    for turn in turns:
        found[turn.agent] += (turn.usage.usd or 0.0) if priced else 1.0
    return found
