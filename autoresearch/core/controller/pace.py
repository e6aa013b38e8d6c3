"""How long the runs of a campaign and the turns of its coding agents take, by what was seen of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoresearch.core.agents.agent import TurnRole
from autoresearch.core.campaign.spec import CampaignSpec

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState, Idea

LATEST = 12  # edits and turns that tell how long the next one takes
BETWEEN_S = 60.0  # from one run to the next at most, unless the campaign stands still: a commit, a worktree, documents
AHEAD = 9  # ideas that are edited before what came of earlier ones is known: so many were simulated


@dataclass(frozen=True, slots=True)
class Pace:
    """Mean times in seconds; None for what was not seen yet."""

    run_s: float | None
    every_s: float | None  # from the end of a run to that of the next one
    edit_s: float | None  # of an edit, its guard and its review included
    propose_s: float | None  # of a turn for ideas

    def begun_during(self, seconds: float | None, slots: int) -> float:
        """The runs that begin in this time if no slot is ever idle; 0 where that is not known."""
        return slots * seconds / self.run_s if self.run_s and seconds else 0.0


def pace_of(state: CampaignState) -> Pace:
    """The pace so far."""

    def known() -> Pace:
        turns = state.research.turns.values()
        roles = {role: [one.usage.seconds for one in turns if one.role == role and not one.fault] for role in TurnRole}
        return Pace(
            run_s=_mean([60 * row.elapsed_min for row in state.rows if row.elapsed_min]),
            every_s=_mean(_gaps(state)[-LATEST:]),
            edit_s=_mean((state.research.edit_seconds or roles[TurnRole.EDIT])[-LATEST:]),
            propose_s=_mean(roles[TurnRole.PROPOSE][-LATEST:]),
        )

    return state.memo("pace", known)


def _gaps(state: CampaignState) -> list[float]:
    """The time that each run took the campaign: since the end of the run before, unless it stood still in between."""
    gaps, before = list[float](), 0.0
    for ended, took in sorted((row.ended, 60 * row.elapsed_min) for row in state.rows if row.ended and row.elapsed_min):
        gaps.append(min(ended - before, took + BETWEEN_S) if before else took)
        before = ended
    return gaps


def _mean(seconds: Sequence[float]) -> float | None:
    return math.fsum(seconds) / len(seconds) if seconds else None


def untried(state: CampaignState) -> list[Idea]:
    """The ideas that wait for their first run."""
    ideas = (idea for idea in state.ideas if not (idea.attempted or idea.hypothesis.merges))
    return [idea for idea in ideas if idea.slug not in state.unwanted]


def most_editors(campaign_spec: CampaignSpec) -> int:
    """Edits and fixes at a time, at most."""
    return campaign_spec.research.editors or max(AHEAD, campaign_spec.parallel)


def turns_s(state: CampaignState, ideas: int) -> float:
    """How long the agents' turns for so many ideas take, as far as that is known: edits go on beside each other."""
    pace, proposed, slots = pace_of(state), state.research.proposed.values(), state.spec.parallel
    unedited = max(0, ideas - len(untried(state)) - sum(one.made for one in proposed))
    edit_s = pace.edit_s or 0.0
    editors = min(most_editors(state.spec), max(slots, pace.begun_during(edit_s, slots)))
    unproposed = max(0, unedited - sum(not one.made for one in proposed))
    asked = max(state.spec.research.ideas, min(2 * pace.begun_during(pace.propose_s, slots), AHEAD))
    proposing_s = math.ceil(unproposed / asked) * (pace.propose_s or 0.0)
    editing_s = unedited / editors * edit_s
    return max(editing_s, proposing_s + (edit_s if unproposed else 0.0))
