"""What an idea is judged against in the state of its campaign, and whether it is owed a re-test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from autoresearch.core.campaign.claim import Claim
from autoresearch.core.campaign.decision import (
    DEFAULT,
    Decision,
    DecisionRule,
    Resolution,
    RunEvidence,
    decide,
    decide_once,
    gain,
    like_fallen,
)
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.metrics.objective import Direction
from autoresearch.core.run.ending import PENDING, Verdict
from autoresearch.core.statistics.noise import (
    UNKNOWN,
    Noise,
    collapsed,
    mean,
    measured,
    noise_in,
    noise_of,
    pooled,
    robust_sd,
    survivors,
)
from autoresearch.core.statistics.seeding import last_digit
from autoresearch.core.statistics.student_t import t_quantile

JITTERED = 0.01  # how often the jitter alone makes a worthless idea better than the resolution, one-sided
ROUNDING = 1e-9  # of the baseline's value: differences up to this are rounding errors
LEAST_BASELINE = 4  # runs of the baseline below which it does not tell how noisy other ideas are


def pending(state: CampaignState, idea: Idea) -> Decision | None:
    """The decision after the last judged row of an idea, computed again.

    None without a judged row, if it is screened, and if clearly no re-test is owed, as where it would be a copy:
    there are thousands of such ideas, and each is checked before every run.
    """
    if not idea.judged or idea.screened or state.unseeded or _is_out(state, idea):
        return None
    return decision_of(state, idea, idea.past_values)


def promised(state: CampaignState, idea: Idea) -> bool:
    """Whether its last judged row says that it is being re-tested: that is kept, whatever other ideas did meanwhile.

    Unless a further run would be a copy, or no more are allowed by now.
    """
    owed = bool(idea.judged) and idea.judged[-1].standing == PENDING and not idea.screened
    return owed and not (state.unseeded or idea.broken) and len(idea.judged) < rule_of(state).most


def decision_of(state: CampaignState, idea: Idea, values: Sequence[float | None]) -> Decision:
    """The decision on an idea whose runs gave these values, oldest first; None is a run without a metric.

    The only way to a decision, of a run that has just ended as of a row that is read again.
    """
    objective, baseline = state.spec.objective, state.baseline
    rival = None if idea.hypothesis.is_baseline else incumbent(state, idea)
    if state.unseeded and rival is not None and rival.values:
        evidence = RunEvidence(values, rival.values, noise_without(state, idea))
        return decide_once(objective, evidence, resolution_of(state, values))
    sd = usual_sd(state)
    own = survivors(objective, baseline.values, sd) if baseline else []
    evidence = RunEvidence(
        values=values,
        incumbent=rival.past_values if rival else (),
        noise=noise_without(state, idea),
        robust_sd=sd,
        fallen=best_fallen(state),
        once=state.runs_once(idea),
        kept=idea is state.best and idea.status == Verdict.KEEP,
        seed_known=state.seed_check is not None,
        baseline_sd=noise_in(own).sd if len(own) >= LEAST_BASELINE else None,
    )
    return decide(objective, evidence, rule_of(state))


def _is_out(state: CampaignState, idea: Idea) -> bool:
    """Whether clearly, without its exact noise, no re-test is owed: `decide` requires more than this."""
    if not idea.values or idea.broken:
        return True
    if state.runs_once(idea):
        return True
    if idea.status == Verdict.KEEP:
        return idea is not state.best or not search_goes_on(state)
    return len(idea.judged) >= rule_of(state).most or _is_no_better(state, idea)


def _is_no_better(state: CampaignState, idea: Idea) -> bool:
    """Whether its mean is no better than the one to beat, and its only run not like one that collapsed.

    That is so of most of a thousand ideas, all of which are looked at before each run.
    """
    rival, ours, objective = incumbent(state, idea), search_values(state, idea), state.spec.objective
    theirs = state.memo(f"values of {rival.index}", lambda: search_values(state, rival)) if rival else []
    if not theirs or (len(idea.judged) == 1 and like_fallen(objective, ours[0], best_fallen(state), theirs)):
        return False
    return gain(objective, ours, theirs) <= 0


def search_goes_on(state: CampaignState) -> bool:
    """Whether further ideas are to come, as far as the number of ideas tells."""
    count = state.spec.rules.count
    return not state.open_round and (count is None or state.attempted < count)


def incumbent(state: CampaignState, idea: Idea) -> Idea | None:
    """The idea to beat: the best other one that is kept, else the baseline."""
    best = state.best
    parents = state.memo("parents", lambda: {other.parent for other in state.ideas})
    if idea is best or idea.status == Verdict.KEEP or idea.slug in parents or idea.hypothesis.is_baseline:
        rest = CampaignState(state.spec, [other for other in state.ideas if other is not idea], research=state.research)
        best = rest.best
    return best


def search_values(state: CampaignState, idea: Idea) -> list[float]:
    """The values that the mean of an idea rests on in the search: without the runs that collapsed."""
    sd = None if state.unseeded else usual_sd(state)
    return idea.values if sd is None else survivors(state.spec.objective, idea.values, sd)


def search_mean(state: CampaignState, idea: Idea) -> float | None:
    """The mean by which the search compares an idea; None without a metric."""
    values = search_values(state, idea)
    return mean(values) if values else None


def usual_sd(state: CampaignState) -> float | None:
    """The robust standard deviation of a run within its idea; None while too little is known."""
    return state.memo("usual sd", lambda: robust_sd(state.spec.objective, state.values))


def best_fallen(state: CampaignState) -> float | None:
    """The best value of any run that collapsed; None without such a run."""
    objective, sd = state.spec.objective, usual_sd(state)

    def best() -> float | None:
        fallen = [value for values in state.values for value in collapsed(objective, values, sd)]
        pick = max if objective.direction is Direction.MAXIMIZE else min
        return pick(fallen, default=None)

    return state.memo("best fallen", best)


def shown_noise(state: CampaignState) -> Noise:
    """The noise as people and agents may be told it: UNKNOWN where runs are copies, or may be for all that is known."""
    return UNKNOWN if state.seed_check is None or state.unseeded else noise_of_all(state)


def noise_without(state: CampaignState, idea: Idea) -> Noise:
    """The noise of all other ideas' replicates, without runs that collapsed.

    It is the total minus its own, as there are thousands of others, and each is asked of before every run.
    """
    every, own = noise_of_all(state), _noises(state).get(idea.index, UNKNOWN)
    squares = every.squares - own.squares
    if not squares >= 1e-3 * own.squares:  # nearly all is its own, or not finite: digits would be lost
        return pooled(noise for index, noise in _noises(state).items() if index != idea.index)
    return Noise(squares, every.df - own.df)


def noise_of_all(state: CampaignState) -> Noise:
    """The noise of all ideas' replicates, without runs that collapsed."""
    return state.memo("noise", lambda: pooled(_noises(state).values()))


def _noises(state: CampaignState) -> dict[int, Noise]:
    """What each idea's replicates show of it, by index; there are thousands of ideas without any."""

    def noises() -> dict[int, Noise]:
        several = (idea for idea in state.ideas if len(idea.values) > 1)
        return {idea.index: noise_in(search_values(state, idea)) for idea in several}

    return state.memo("noises", noises)


def rule_of(state: CampaignState) -> DecisionRule:
    """The decision rule with as many re-tests as this campaign allows."""
    return rule_for(state.spec.retests)


@lru_cache
def rule_for(retests: int) -> DecisionRule:
    """The decision rule with at most so many re-tests of an idea."""
    most = 1 + retests
    return replace(DEFAULT, least=min(DEFAULT.least, most), most=most)


def resolution_of(state: CampaignState, values: Sequence[float | None] = ()) -> Resolution:
    """The resolution of a campaign whose runs are copies; `values`: of a run without a row, which may show more digits.

    The campaign's `resolution`, in the unit of the metric; without one it is the largest of

    - one unit of the last digit in which the metric is written: each of two rounded values is off by up to half a unit,
      so a difference of one may be next to nothing before rounding;
    - ROUNDING of the baseline's value, as numbers in full precision differ by rounding errors;
    - where the n copies of the baseline jitter, t(1 - JITTERED, n - 1) * sqrt(2) * sd: a further copy is better than
      another by more than that once in a hundred times (Student's t; the jitter is taken to be normal, and of one size
      for all ideas). For three copies that is 9.85 sd, for five 5.30. A campaign of 24 worthless ideas so keeps 0.23 of
      them on average, or fewer, as the baseline's mean is more precise than one run.
    """
    if state.spec.resolution is not None:
        return Resolution(state.spec.resolution, "as set")
    copies = state.baseline.values if state.baseline else []
    step = state.seed_check.step if state.seed_check and state.seed_check.step is not None else math.inf
    known = state.memo("last_digit", lambda: last_digit(chain(*state.values)))
    found = [Resolution(min(step, known, last_digit(measured(values))), "one unit of the last digit")]
    if copies:
        found.append(Resolution(ROUNDING * abs(mean(copies)), "a rounding error"))
    jitter = noise_of([copies])
    if jitter.sd:
        times = t_quantile(1 - JITTERED, jitter.df) * math.sqrt(2)
        source = f"{times:.3g} times the jitter, sd {jitter.sd:.2g} of {len(copies)} runs of the baseline"
        found.append(Resolution(times * jitter.sd, source))
    return max(found, key=lambda one: one.size)


def one_run_claim(state: CampaignState) -> Claim:
    """The verdict on a kept idea whose runs are copies: what a single seed shows says nothing of another."""
    return Claim.DETERMINISTIC if state.deterministic else Claim.ONE_SEED


def claim_words(state: CampaignState, idea: Idea) -> str:
    """What may be said of a kept idea whose runs are copies."""
    baseline = state.baseline
    if baseline is None or not baseline.values or not idea.values:
        return "nothing to compare it with was measured"
    delta, resolution = gain(state.spec.objective, idea.values, baseline.values), resolution_of(state)
    size = f"by {delta:.3g}, resolution {resolution.size:.3g}"
    better = f"better than the baseline {size}" if resolution.exceeded_by(delta) else "no better than the baseline"
    why = "nothing in it is random" if state.deterministic else "nothing is known of other seeds"
    return f"{better}; {why}"
