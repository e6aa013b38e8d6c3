"""What a campaign of one idea, begun to tell whether that is better, has shown so far."""

from __future__ import annotations

from dataclasses import dataclass

from autoresearch.core.campaign.claim import ONE_RUN, Claim
from autoresearch.core.campaign.decision import gain
from autoresearch.core.campaign.judgement import resolution_of
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.confirmation_rounds import design_of
from autoresearch.core.controller.sentences import breach_words, seed_words, without_metric
from autoresearch.core.statistics.confirmation import power
from autoresearch.core.statistics.seeding import DECLARE, Randomness
from autoresearch.core.text.numbers import counted

SEEN = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # sd of a run: the least of these gains that is likely to be seen is told
LIKELY = 0.7


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of it. Differences have the metric's own sign."""

    proved: bool | None  # None: the runs could not tell, or not yet
    sentence: str
    worse: bool = False  # than what it was compared with, and by more than chance explains
    difference: float | None = None
    interval: tuple[float, float] | None = None
    coverage: float | None = None  # of the interval
    runs: int = 0  # fresh ones of both sides
    power: float | None = None  # chance to have seen a gain of `power_of` sd of a run (more than `at_least`)
    power_of: float | None = None


def proof_of(state: CampaignState, standing: str = "") -> Proof:
    """What it has shown; `standing`: where the campaign stands, and why, which is said until something is shown."""
    idea = next((one for one in state.ideas if one.index > 1), None)
    ended, objective = state.phase is CampaignPhase.ENDED, state.spec.objective
    unclear = state.seed_check is not None and state.seed_check.randomness == Randomness.UNKNOWN
    copies = state.unseeded and not unclear
    if idea and idea.confirmed in ("", *ONE_RUN) and copies and ended and not state.distrusted(idea):
        delta = gain(objective, idea.values, state.baseline.values) if state.baseline and idea.values else None
        if delta is not None:
            return _of_copies(state, delta)
    if idea is not None and idea.breach is not None:
        fresh = sum(run.why == "confirm" and run.run in one.done for one in state.ideas for run in one.runs)
        return Proof(False, f"not shown: {breach_words(idea.breach)}", runs=fresh)
    if idea is None or not idea.confirmed:
        why = f"not decided: {_why_open(state, idea) or standing}" if ended else f"not decided yet: {standing}"
        return Proof(None, why)
    claim = idea.claim
    looks = design_of(state.rounds[-1]) if state.rounds else None
    seen = next((size for size in SEEN if power(looks, size) >= LIKELY), SEEN[-1]) if looks else None
    chance = power(looks, seen) if looks and seen else None
    runs = sum(filter(None, (claim.n, claim.n_baseline, claim.failed, claim.failed_baseline)))
    proved = {"confirmed": True, "demoted": False, "unconfirmed": False}.get(idea.confirmed)
    worse = proved is False and claim.gain_high is not None and claim.gain_high < 0
    value, baseline = claim.means(objective)
    difference = None if value is None or baseline is None or claim.gain is None else value - baseline
    words = f"{objective.metric} {claim.words(objective)}"
    if proved or worse:
        sentence = f"{'proved' if proved else 'worse'}: {words}"
    elif proved is False and not claim.fails_more:
        sentence = f"not shown: {words}"
        if chance is not None:
            more = f"{seen:g} sd more than {state.spec.at_least}" if state.spec.at_least else f"{seen:g} sd"
            sentence += f"; a gain of {more} would have been seen in {100 * chance:.0f} of 100 cases"
    else:
        undecided = Claim.ONE_SEED if idea.confirmed == Claim.ONE_SEED else "not decided"
        what = undecided if proved is None else "not shown"
        sentence = f"{what}: {claim.reason.removeprefix('not confirmed: ').removeprefix('not decided: ')}"
    ends = claim.interval(objective)
    return Proof(proved, sentence, worse, difference, ends, claim.coverage, runs, chance, seen)


def _of_copies(state: CampaignState, delta: float) -> Proof:
    """What one run of each shows, where further ones would be copies; `delta` is positive where it is better."""
    resolution, objective = resolution_of(state), state.spec.objective
    better, worse = resolution.exceeded_by(delta), resolution.exceeded_by(-delta)
    change = objective.change(delta)
    about = f"{objective.metric} {change:+.3g} (resolution {resolution.size:.3g})"
    if state.deterministic:
        verdict = f"{'better' if better else 'worse' if worse else 'no better'}, {Claim.DETERMINISTIC}: {about}"
        return Proof(better, f"{verdict}; nothing in it is random, so one run of each side tells", worse, change)
    verdict = Claim.ONE_SEED if better or worse else "no difference for this seed"
    why = "runs are copies of one another, so nothing is known of other seeds"
    return Proof(None, f"{verdict}: {about}; {why}; {DECLARE}", difference=change)


def _why_open(state: CampaignState, idea: Idea | None) -> str:
    """Why it ended without a claim; "" where the reason for its end says it."""
    if idea and idea.judged and not idea.values:
        return without_metric(state, idea, "it")
    if state.unseeded:
        return seed_words(state)
    if state.spec.rules.deadline is None or state.stop_mode:
        return ""
    fresh = sum(run.why == "confirm" and run.run in one.done for one in state.ideas for run in one.runs)
    return f"the time was too short: it allowed {counted(fresh, 'fresh run')} of both sides together"
