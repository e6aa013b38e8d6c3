"""What a campaign will cost in runs: at least, usually, at most; and on average, for what fits into a time.

The expected re-tests are a formula that follows simulated campaigns, in which the product's own decisions are made: one
idea in ten is better than its parent by two standard deviations of a run, the others change nothing, and every run has
a metric. They are within a fifth of what is simulated, and at the usual number of re-tests within 5 %. How many ideas
are better is not known before, and the number of runs depends on it most: what is usual holds where half of them are,
too. Runs that the machine ends and that are tried again are not in any number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from autoresearch.core.agents.turns import AGENT, HYBRID
from autoresearch.core.campaign.decision import gain
from autoresearch.core.campaign.spec import (
    BASELINE_RUNS,
    CHECKED,
    LEAST_BASELINE_RUNS,
    MOST_REPEATS,
    MOST_ROUNDS,
    REFRESH,
    CampaignSpec,
)
from autoresearch.core.campaign.tip import most_proofs, proof_runs
from autoresearch.core.statistics.confirmation import design, expected_size
from autoresearch.core.statistics.noise import noise_of

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState, Round

EFFECT = 2.0  # of an idea that works, in sd of a single run
RETESTED = 0.73  # re-tests of the first idea, if any number is allowed
GOES_ON = 0.62  # share of the re-tested ideas whose next run leaves them in the race
SLOWER = 0.86  # re-tests grow with this power of the ideas: the more are kept, the harder the next one is to beat
USUAL_RETESTS = 3  # of each idea at most, where every second one is better
BASELINE_SHARE = 5  # the baseline takes at most one in so many runs, unless that leaves it too few
HONEST = 0.8  # share of the measured gain to expect: selection inflates the gain


@dataclass(frozen=True, slots=True)
class RunCount:
    """The runs of a campaign that attempts so many ideas, the baseline included, or the rest of one."""

    ideas: int
    baseline: int
    first: int  # one of each idea that is tried
    retests: float  # expected
    proofs: float  # expected runs of the tip, which is proved in the place of single ideas
    confirming: float  # expected fresh runs of a proof
    usual_retests: int  # usually at most, those of the tip among them
    usual: int  # of everything, usually at most
    most: int  # of everything

    @property
    def least(self) -> int:
        """The runs that are made whatever they show."""
        return self.baseline + self.first

    @property
    def expected(self) -> float:
        """All expected runs, with a proof of the best idea."""
        return self.least + self.retests + self.proofs + self.confirming


def run_count(campaign_spec: CampaignSpec, ideas: int, attempted: int = 0) -> RunCount:
    """The runs that a campaign of `ideas` ideas takes when `attempted` of them are over, its baseline among them."""
    spec = campaign_spec
    first = max(0, ideas - max(1, attempted))
    repeats = MOST_REPEATS if spec.retests else 0
    refreshed = REFRESH if spec.replicates >= BASELINE_RUNS else math.inf
    baseline = int(max(0, ideas - 2) // refreshed - max(0, attempted - 1) // refreshed)  # none after the last idea
    baseline += 0 if attempted else spec.replicates
    once = _share_that_runs_once(spec)
    retests = (1 - once) * (_retests(spec.retests, ideas) - _retests(spec.retests, min(ideas, attempted)))
    again = math.ceil((1 - once) * first)
    of_tip = most_proofs(first) * (1 + spec.retests) if once else 0
    usual_retests = again * min(USUAL_RETESTS, spec.retests) + of_tip
    rounds = _rounds_at_most(spec) if ideas > 1 else []
    return RunCount(
        ideas=ideas,
        baseline=baseline,
        first=first,
        retests=retests,
        proofs=proof_runs(first, 1 + spec.retests) if once else 0.0,
        confirming=fresh_runs(EFFECT, spec.rules.confirm_runs) if rounds else 0.0,
        usual_retests=usual_retests,
        usual=baseline + first + usual_retests + sum(rounds[:1]),
        most=baseline + first + again * spec.retests + of_tip + (repeats + sum(rounds) if ideas > 1 else 0),
    )


def _share_that_runs_once(campaign_spec: CampaignSpec) -> float:
    """Of the ideas of a campaign: those of an optimiser are re-tested in any search."""
    if campaign_spec.search != "tip":
        return 0.0
    return {AGENT: 1.0, "queue": 1.0, HYBRID: campaign_spec.research.share}.get(campaign_spec.proposer.name, 0.0)


def _retests(allowed: int, ideas: int) -> float:
    """The expected re-tests of a campaign of so many ideas, each of which has so many re-tests at most."""
    return RETESTED * (1 - math.pow(GOES_ON, allowed)) * math.pow(max(0, ideas - 1), SLOWER)


def _rounds_at_most(campaign_spec: CampaignSpec) -> list[int]:
    """The most runs of each round of confirmation; of the first also those that show whether seeds do anything."""
    if not campaign_spec.confirm:
        return []
    rounds = range(1, (1 if campaign_spec.prove else MOST_ROUNDS) + 1)
    found = [2 * looks.sizes[-1] for n in rounds if (looks := design(n, 1, campaign_spec.rules.confirm_runs))]
    return [max(0, CHECKED - campaign_spec.replicates) + sum(found[:1]), *found[1:]]


def ideas_within(campaign_spec: CampaignSpec, runs: float, most: int | None = None, attempted: int = 0) -> int:
    """How many ideas, `attempted` ones and the baseline included and `most` at most, so many runs are likely to allow.

    Their confirmation is among the runs. 0: not even the baseline has its runs.
    """
    low, high = attempted, attempted + max(1, int(runs)) if most is None else most
    while low < high:
        middle = (low + high + 1) // 2
        if run_count(campaign_spec, middle, attempted).expected <= runs:
            low = middle
        else:
            high = middle - 1
    return low


def baseline_runs(runs: float) -> int:
    """The runs of the baseline where nobody says how many, in a campaign of so many runs in all."""
    return max(LEAST_BASELINE_RUNS, min(BASELINE_RUNS, int(runs / BASELINE_SHARE)))


def confirmation_to_come(state: CampaignState) -> float:
    """The expected fresh runs of the confirmation at the end of a campaign, as it stands; 0 if there will be none."""
    from autoresearch.core.controller.confirmation_rounds import rounds_left  # a campaign that begins has no state yet

    spec, best, baseline = state.spec, state.best, state.baseline
    if not spec.confirm or state.unseeded or rounds_left(state) <= 0:
        return 0.0
    if spec.prove:
        return fresh_runs(EFFECT, spec.rules.confirm_runs)
    if best is None or baseline is None or best is baseline or best.confirmed or not best.kept:
        return 0.0
    noise = noise_of(idea.values for idea in state.ideas)
    ahead = gain(spec.objective, best.values, baseline.values) if baseline.values else 0.0
    effect = HONEST * ahead / noise.sd if noise.sd else EFFECT
    return fresh_runs(round(effect, 1), spec.rules.confirm_runs, 1 + len(state.rounds))


def runs_to_come(state: CampaignState) -> float:
    """The expected runs until the count is reached and the best idea is proved, those that have begun among them."""
    from autoresearch.core.controller import confirmation_rounds, scheduler

    spec, count, ongoing = state.spec, state.spec.rules.count or 0, state.open_round
    if ongoing:  # until its next look
        sides, done = len(ongoing.candidates) + 1, sum(len(idea.fresh_values(ongoing.number)) for idea in state.ideas)
        looks = (sides * size for size in ongoing.sizes)
        goes_on = confirmation_rounds.owed_to_round(state)
        return next((look - done for look in looks if look > done), 0) if goes_on else len(state.live)
    rest = run_count(spec, max(count, state.attempted), max(1, state.attempted))
    tried = [idea for idea in state.ideas if idea.attempted and not idea.hypothesis.is_baseline]
    again = sum(run.why in ("retest", "repeat") for idea in tried for run in idea.runs)  # more, if many are better
    runs = rest.least + max(rest.retests, rest.first * again / (len(tried) or 1)) + rest.proofs
    if state.baseline is not None:
        runs += max(0, scheduler.replicates(state) - len(state.baseline.judged))
    runs += sum(1 / (1 - GOES_ON) if idea.rows else 1.0 for idea in tried if not scheduler.decided(state, idea))
    confirming = confirmation_to_come(state)
    if runs and not confirming and spec.confirm and not state.unseeded:
        confirming = rest.confirming  # of an idea that may yet be found
    return runs + confirming


def plan_in_time(state: CampaignState, waves: float) -> tuple[Round | None, str]:
    """The next round of confirmation, as `plan_round` plans it, that ends after so many runs one after the other.

    Each slot takes its share of them, and all runs of a look end before those of the next one begin.
    """
    from autoresearch.core.controller.confirmation_rounds import plan_round

    planned, why = plan_round(state)
    while planned is not None and _waves(planned, state.spec.parallel) > waves:
        fewer = (len(planned.candidates) + 1) * planned.sizes[-1] - 1
        planned, why = plan_round(replace(state, spec=state.spec.with_rules({"confirm_runs": fewer})))
    return planned, why


def _waves(planned: Round, slots: int) -> int:
    sides = len(planned.candidates) + 1
    steps = (size - before for before, size in pairwise((0, *planned.sizes)))
    return sum(math.ceil(step * sides / slots) for step in steps)


@lru_cache
def fresh_runs(effect: float, budget: int, round_number: int = 1) -> float:
    """The expected fresh runs, of both sides together, that one idea's confirmation takes; at most `budget`.

    `effect`: its true gain over the baseline, in sd of a run. It is up to one or two runs too small, as the values are
    taken to be normal with a known sd.
    """
    looks = design(round_number, 1, budget)
    return 2 * expected_size(looks, effect * math.sqrt(looks.sizes[-1] / 2)) if looks else 0.0
