"""Confirmation: whether a kept idea may be claimed to beat the baseline.

A kept idea is the best of many tries, so the runs that selected it overestimate it. A claim therefore rests only
on fresh runs of the candidates and of the baseline, with seeds that played no part in the selection. What remains to
be corrected for is the number of claims:

- one-sided Welch's t-test of each candidate against the baseline (B. L. Welch, Biometrika 34, 1947);
- no p-value below 1 / C(n + m, n), the smallest possible one of a permutation test of n against m runs: three equal
  values against three others are no proof, however small their spread;
- Holm's step-down over the candidates of a round (S. Holm, Scand. J. Statist. 6, 1979), which is valid although
  they share one baseline;
- a campaign may confirm several times, also on demand: round r spends 0.8 * 0.2**(r - 1) of alpha, which sums
  to alpha over any number of rounds (Bonferroni with unequal weights).

Sample sizes are planned before the runs are started, and there is a single test at the end of a round, without interim
looks. On pure noise, with 4,000 simulated campaigns each of 24, 50 and 100 ideas (`python -m tests.bench.ratchet`) and
every kept idea put to confirmation, about 1 % of the campaigns claim anything; where one idea is confirmed whether or
not it was kept, 4 % do, the level of a first round. Of the last kept ideas that are truly better, by 2 sd or more, five
fresh runs against five confirm 98 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autoresearch.core.campaign.decision import gain
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.noise import Noise, measured, variance
from autoresearch.core.statistics.student_t import t_cdf, t_quantile

ALPHA = 0.05
"""Probability that a campaign in which nothing works claims anything at all."""
POWER = 0.9
"""The planned probability that an idea which works is confirmed."""
MOST = 8
"""The largest number of fresh runs planned for one candidate."""


class Claim(StrEnum):
    """The outcome for a candidate."""

    CONFIRMED = "confirmed"
    DEMOTED = "demoted"
    UNDECIDED = "undecided"  # too few fresh runs with a metric for any test to pass


@dataclass(frozen=True, slots=True)
class ConfirmationPlan:
    """The number of fresh runs in a round of confirmation."""

    candidates: int
    each: int  # runs of each candidate; 0: the budget does not allow a round
    baseline: int
    power: float  # for each candidate, if its effect is the planned one
    reason: str

    @property
    def runs(self) -> int:
        """All runs of the round, the baseline's included."""
        return self.candidates * self.each + self.baseline


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The result of the fresh runs of one candidate."""

    claim: Claim
    reason: str  # one sentence with the numbers
    n: int  # fresh runs with a metric
    n_baseline: int
    delta: float | None = None  # mean minus the baseline's, in the metric's unit; positive is better
    p: float | None = None  # one-sided, uncorrected
    alpha: float | None = None  # the corrected level that p had to reach


def level(round_number: int, alpha: float = ALPHA) -> float:
    """The share of alpha that a round (counted from 1) may spend: 0.04, 0.008, 0.0016 ... for the default alpha."""
    return float(alpha * 0.8 * 0.2 ** (round_number - 1))


def plan(
    effect: float, noise: Noise, *, candidates: int = 1, round_number: int = 1, budget: int | None = None
) -> ConfirmationPlan:
    """The smallest round that confirms a true gain of `effect` (in the metric's unit) with probability POWER.

    `noise` is the campaign's; for unknown noise or an effect that is not positive, the largest round is planned.
    `budget` limits the total number of runs. The baseline, which is compared with every candidate, gets
    sqrt(candidates) times the runs of one (C. W. Dunnett, JASA 50, 1955). The gain at which an idea was kept is
    too optimistic: pass the smallest gain worth a claim, or 0.8 of the measured gain, as `effect`.
    """
    alpha = level(round_number) / candidates
    planned: ConfirmationPlan | None = None
    for each in range(2, MOST + 1):
        baseline = math.ceil(each * math.sqrt(candidates))
        runs = candidates * each + baseline
        if _sharpest(each, baseline) > alpha:
            continue
        if budget is not None and runs > budget:
            break
        power = _power(effect, noise, each, baseline, alpha)
        reason = f"{each} fresh runs of each of {candidates} and {baseline} of the baseline, power {power:.0%}"
        planned = ConfirmationPlan(candidates, each, baseline, power, reason)
        if power >= POWER:
            break
    return planned or ConfirmationPlan(candidates, 0, 0, 0.0, f"no round for {candidates} fits {_allowed(budget)}")


def confirm(
    objective: Objective,
    baseline: Sequence[float | None],
    candidates: Mapping[int, Sequence[float | None]],
    round_number: int = 1,
) -> dict[int, Confirmation]:
    """Judge the candidates of one round (index of the idea -> metric of its fresh runs), by Holm's procedure.

    Every value must come from a run that played no part in the selection. Candidates that cannot be tested still count
    in the correction. If a candidate is undecided, its missing runs may be added and the round judged again, as no
    test was performed.
    """
    p_values = {index: _p_value(objective, measured(runs), measured(baseline)) for index, runs in candidates.items()}
    results: dict[int, Confirmation] = {}
    failed = False
    for rank, index in enumerate(sorted(p_values, key=lambda i: (p_values[i], i))):
        alpha = level(round_number) / (len(candidates) - rank)
        failed = failed or p_values[index] > alpha
        results[index] = _judge(objective, baseline, candidates[index], (p_values[index], alpha, not failed))
    return {index: results[index] for index in candidates}


def _judge(
    objective: Objective,
    baseline: Sequence[float | None],
    candidate: Sequence[float | None],
    test: tuple[float, float, bool],
) -> Confirmation:
    """`test`: p-value, the level that it had to reach, whether it passed Holm's procedure."""
    p, alpha, passed = test
    ours, theirs = measured(candidate), measured(baseline)
    if min(len(ours), len(theirs)) < 2 or _sharpest(len(ours), len(theirs)) > alpha:
        reason = (
            f"{len(ours)} of {len(candidate)} fresh runs and {len(theirs)} of {len(baseline)} of the baseline "
            f"have a valid metric: too few to claim anything at {alpha:.2g}"
        )
        return Confirmation(Claim.UNDECIDED, reason, len(ours), len(theirs), alpha=alpha)
    delta = gain(objective, ours, theirs)
    claim = Claim.CONFIRMED if passed else Claim.DEMOTED
    word = "confirmed" if passed else "not confirmed"
    reason = (
        f"{word}: {delta:+.3g} over the baseline in fresh runs ({len(ours)} against {len(theirs)}), "
        f"p = {p:.2g}, {alpha:.2g} needed"
    )
    return Confirmation(claim, reason, len(ours), len(theirs), delta, p, alpha)


def _p_value(objective: Objective, ours: Sequence[float], theirs: Sequence[float]) -> float:
    """One-sided; 1 if there is nothing to test."""
    if min(len(ours), len(theirs)) < 2:
        return 1.0
    delta = gain(objective, ours, theirs)
    a, b = variance(ours) / len(ours), variance(theirs) / len(theirs)
    if a + b == 0:  # identical values: only the permutation bound applies
        return _sharpest(len(ours), len(theirs)) if delta > 0 else 1.0
    if math.isinf(a + b):
        return 1.0
    share = a / (a + b)
    df = 1 / (share * share / (len(ours) - 1) + (1 - share) * (1 - share) / (len(theirs) - 1))
    return max(t_cdf(-delta / math.sqrt(a + b), df), _sharpest(len(ours), len(theirs)))


def _sharpest(n: int, m: int) -> float:
    """The smallest p-value that a permutation test of n against m runs can yield."""
    return 1 / math.comb(n + m, n)


def _power(effect: float, noise: Noise, n: int, m: int, alpha: float) -> float:
    """Power of the one-sided test with pooled variance; a shifted t approximates the non-central one."""
    if noise.sd is None or effect <= 0:
        return 0.0
    if noise.sd == 0:
        return 1.0
    df = n + m - 2
    return t_cdf(effect / (noise.sd * math.sqrt(1 / n + 1 / m)) - t_quantile(1 - alpha, df), df)


def _allowed(budget: int | None) -> str:
    return f"{MOST} runs of each" if budget is None else f"a budget of {budget} runs"
