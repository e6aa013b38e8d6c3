"""The runs of a campaign: at least and at most, as its plan says; and, while it goes on, those to come by its own pace.

Runs that the machine ends and that are tried again are not in any number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoresearch.core.agents.turns import AGENT, HYBRID
from autoresearch.core.campaign.spec import (
    BASELINE_RUNS,
    CHECKED,
    MOST_REPEATS,
    MOST_ROUNDS,
    REFRESH,
    CampaignSpec,
)
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.campaign.tip import most_proofs
from autoresearch.core.controller import scheduler
from autoresearch.core.controller.confirmation_rounds import next_round, owed_to_round, rounds_left, to_be_proved
from autoresearch.core.statistics.confirmation import design


@dataclass(frozen=True, slots=True)
class RunCount:
    """The runs of a campaign that attempts so many ideas, the baseline included, or the rest of one."""

    ideas: int
    baseline: int
    first: int  # one of each idea that is tried
    retests: int  # at most, proofs of the tip and further runs of kept ideas among them
    fresh: int  # of all rounds of confirmation, at most
    edits: int = 0  # with and without each edit of what is confirmed, at most

    @property
    def least(self) -> int:
        """The runs that are made whatever they show."""
        return self.baseline + self.first

    @property
    def most(self) -> int:
        """All runs, at most."""
        return self.least + self.retests + self.fresh + self.edits


def run_count(campaign_spec: CampaignSpec, ideas: int, attempted: int = 0) -> RunCount:
    """The runs that a campaign of `ideas` ideas takes when `attempted` of them are over, its baseline among them."""
    spec, first = campaign_spec, max(0, ideas - max(1, attempted))
    refreshed = REFRESH if spec.replicates >= BASELINE_RUNS else math.inf
    baseline = int(max(0, ideas - 2) // refreshed - max(0, attempted - 1) // refreshed)  # none after the last idea
    baseline += 0 if attempted else spec.replicates
    once = _share_that_runs_once(spec)
    retests = math.ceil((1 - once) * first) * spec.retests + (most_proofs(first) * (1 + spec.retests) if once else 0)
    if ideas < 2:
        return RunCount(ideas, baseline, first, retests, 0)
    repeats = MOST_REPEATS if spec.retests else 0
    edits = spec.rules.confirm_runs if spec.confirm and once else 0
    return RunCount(ideas, baseline, first, retests + repeats, _fresh_at_most(spec), edits)


def _share_that_runs_once(campaign_spec: CampaignSpec) -> float:
    """Of the ideas of a campaign: those of an optimiser are re-tested in any search."""
    if campaign_spec.search != "tip":
        return 0.0
    return {AGENT: 1.0, "queue": 1.0, HYBRID: campaign_spec.research.share}.get(campaign_spec.proposer.name, 0.0)


def _fresh_at_most(campaign_spec: CampaignSpec) -> int:
    """The runs of all rounds of confirmation, with those of the baseline that show whether seeds do anything."""
    spec = campaign_spec
    if not spec.confirm:
        return 0
    rounds = (design(n, 1, spec.rules.confirm_runs) for n in range(1, (1 if spec.prove else MOST_ROUNDS) + 1))
    return max(0, CHECKED - spec.replicates) + sum(2 * looks.sizes[-1] for looks in rounds if looks)


def smallest_round(state: CampaignState) -> int:
    """The fresh runs of both sides that decide the next round of confirmation at its first look; 0 if none may come."""
    if not state.spec.confirm or state.unseeded or rounds_left(state) <= 0:
        return 0
    looks = design(next_round(state), 1, state.spec.rules.confirm_runs)
    return 2 * looks.sizes[0] if looks else 0


def runs_to_come(state: CampaignState) -> float:
    """The runs until the count is reached and the best idea is proved, by what ideas took so far.

    Of a proof, as many as its first look takes.
    """
    spec, ongoing = state.spec, state.open_round
    if ongoing:  # until its next look
        sides, done = len(ongoing.candidates) + 1, sum(len(idea.fresh_values(ongoing.number)) for idea in state.ideas)
        looks = (sides * size for size in ongoing.sizes)
        return next((look - done for look in looks if look > done), 0) if owed_to_round(state) else len(state.live)
    tried = [idea for idea in state.ideas if idea.index > 1 and idea.runs]
    over = [idea for idea in tried if scheduler.decided(state, idea)]
    searching = sum(run.why != "confirm" for idea in over for run in idea.runs)
    ideas = sum(not idea.hypothesis.merges for idea in over)
    each = (1 + searching) / (1 + ideas)  # with one that took a single run: the first to be decided may have taken many
    runs = each * max(0, (spec.rules.count or 0) - state.attempted)
    settled = {idea.index for idea in over}
    runs += sum(max(1.0, each - len(idea.rows)) for idea in tried if idea.index not in settled)
    if state.baseline is not None:
        runs += max(0, scheduler.replicates(state) + scheduler.refreshes(state) - len(state.baseline.judged))
    return runs + (smallest_round(state) if runs or to_be_proved(state) else 0)
