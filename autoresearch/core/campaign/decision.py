"""Decision: keep, discard or crash for one idea, after each of its runs. docs/judge.md says it in formulas.

As in the git workflow of NeMo-RL's auto-research skill: `keep` is better; `crash` has no
valid metric; everything else is `discard`. In addition, noise is taken into account: one lucky run is not kept.

The variance of each side is its own, shrunk towards that of all replicates of the campaign as if they were `prior`
degrees of freedom (G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004); the degrees of freedom of the t-test are F. E.
Satterthwaite's. Runs that collapsed (`core.statistics.noise`) are left out of both means, and an idea that loses more
of its runs than the incumbent is not kept. A kept idea that is much noisier than the baseline is run again while the
search builds on it: an incumbent that was overestimated stops everything that comes after it.

`alpha` is not an error rate: an idea is tested several times, and re-tested only because its first run was good. The
overall rates are simulated (`python -m tests.bench judge`), and docs/judge.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.noise import UNKNOWN, Noise, mean, measured, noise_in, survivors
from autoresearch.core.statistics.student_t import share_p, t_quantile


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """When to re-test and when to keep."""

    first: float = 0.9  # standard errors by which an idea's first run must exceed the incumbent's mean
    again: float = 1.1  # the same for its mean after further runs
    least: int = 4  # runs with a metric required before anything is kept
    most: int = 7  # runs of one idea at most, those without a metric included
    alpha: float = 0.03  # one-sided level of the t-test
    prior: int = 4  # degrees of freedom that the campaign's noise stands for in the variance of one idea
    losing: float = 0.1  # one-sided level of the test whether an idea loses more runs than the incumbent
    noisier: float = 2.5  # times the baseline's variance from which on a kept idea is run again
    precise: float = 0.5  # standard error of a kept idea's mean that is enough, in sd of the baseline
    repeats: int = 14  # runs of such an idea at most


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """The measurements to decide on. None, NaN and infinities are runs without a metric."""

    values: Sequence[float | None]  # of this idea's runs, in order; the last is the one that has just ended
    incumbent: Sequence[float | None]  # of the idea to beat; empty: this is the baseline itself
    noise: Noise = UNKNOWN  # pooled over every other idea, baseline and incumbent included
    robust_sd: float | None = None  # of a run within its idea, by which runs that collapsed are known
    fallen: float | None = None  # the best value of any run that collapsed
    once: bool = False  # it runs once: all runs of the campaign together say what it is worth
    kept: bool = False  # it is kept already, and the search builds on it: further runs only measure it better
    baseline_sd: float | None = None  # of the baseline's own runs
    seed_known: bool = True  # whether it is known if runs of one seed are copies


@dataclass(frozen=True, slots=True)
class Decision:
    """Status and reason for the row of the run that has just ended, and whether the idea needs another run."""

    status: Verdict
    reason: str  # one short sentence with the numbers, for the row's description
    n: int  # runs of this idea with a metric
    delta: float | None = None  # mean minus the incumbent's mean, in the metric's unit; positive is better
    noise: float | None = None  # sd of a single run, in the metric's unit
    threshold: float | None = None  # what delta has to exceed: to be re-tested; from `least` runs on, to be kept
    retest: bool = False  # whether a further run with another seed is to start now; False: the decision is final


DEFAULT = DecisionRule()


def decide(objective: Objective, evidence: RunEvidence, rule: DecisionRule = DEFAULT) -> Decision:
    """Judge an idea after its latest run.

    Earlier rows keep the decisions made at their time; an idea's status is that of its last decision.
    """
    values = measured(evidence.values)
    n, measures = len(values), bool(measured(evidence.values[-1:]))
    if not values:
        return Decision(Verdict.CRASH, "no valid metric", 0)
    if not evidence.incumbent:
        noise = evidence.noise.plus(values) if evidence.seed_known else UNKNOWN
        if not measures:
            return Decision(Verdict.CRASH, "baseline run without a valid metric", n, noise=noise.shown_sd)
        reason = f"baseline: mean {mean(values):.4g} of {_runs(n)}, {noise.wording}"
        return Decision(Verdict.KEEP, reason, n, 0.0, noise.shown_sd)
    if not measured(evidence.incumbent):
        status = Verdict.DISCARD if measures else Verdict.CRASH
        return Decision(status, "the incumbent has no valid metric to compare with", n)
    return _compare(objective, evidence, rule)


def gain(objective: Objective, ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Difference of the means, in the metric's unit; positive is better. Equal up to rounding is 0."""
    a, b = mean(ours), mean(theirs)
    if math.isclose(a, b, rel_tol=1e-9):
        return 0.0
    return a - b if objective.direction is Direction.MAXIMIZE else b - a


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """The difference of two means, without the runs that collapsed."""

    delta: float  # difference of the means; positive is better
    noise: Noise  # of all ideas, this one included
    se: float  # standard error, with the variance of either side shrunk towards the noise
    df: float  # of the difference; 0 while the noise is unknown

    def bar(self, alpha: float) -> float:
        """What delta has to exceed at this one-sided level."""
        return t_quantile(1 - alpha, math.floor(10 * self.df) / 10) * self.se if self.df else math.inf


def compared(
    objective: Objective, ours: Sequence[float], theirs: Sequence[float], noise: Noise, rule: DecisionRule
) -> MeanDifference:
    """Compare the values of two ideas. `noise`: of all others, and of `theirs`."""
    noise = noise.plus(ours)
    parts = [shrunk(values, noise, rule) / len(values) for values in (ours, theirs)]
    total, prior, df = sum(parts), min(rule.prior, noise.df), float(noise.df)
    if prior and 0 < total < math.inf:
        sides = zip(parts, (ours, theirs), strict=True)
        df = 1 / sum((part / total) ** 2 / (prior + len(values) - 1) for part, values in sides)
    return MeanDifference(gain(objective, ours, theirs), noise, math.sqrt(total), df)


def shrunk(values: Sequence[float], noise: Noise, rule: DecisionRule) -> float:
    """The variance of a single run of an idea, shrunk towards the noise."""
    own = noise_in(values)
    return (rule.prior * noise.variance + own.squares) / (rule.prior + own.df)


def _compare(objective: Objective, evidence: RunEvidence, rule: DecisionRule) -> Decision:
    ours = survivors(objective, evidence.values, evidence.robust_sd)
    theirs = survivors(objective, evidence.incumbent, evidence.robust_sd)
    spent, n, measures = len(evidence.values), len(ours), bool(measured(evidence.values[-1:]))
    found = compared(objective, ours, theirs, evidence.noise, rule)
    delta, noise = found.delta, found.noise
    step = (rule.first if n == 1 else rule.again) * found.se if noise.known else 0.0
    enough = n >= rule.least and noise.known
    bar = found.bar(rule.alpha) if enough else step if noise.known else None
    share = f"{n}" if n == spent else f"{n} of {spent}"
    counts = f"{share} against {_runs(len(theirs), len(evidence.incumbent))}"
    numbers = f"{objective.change(delta):+.3g} from {mean(theirs):.4g} ({counts}, {noise.wording})"

    def decision(status: Verdict, reason: str, retest: bool = False) -> Decision:
        return Decision(status, f"{numbers}: {reason}", n, delta, noise.shown_sd, bar, retest)

    if evidence.kept and measures:
        again = _repeat(evidence, ours, rule)
        return decision(Verdict.KEEP, "kept, and run again to measure it better" if again else "kept", again)
    second = spent == 1 and like_fallen(objective, ours[0], evidence.fallen, theirs)
    promising = delta > step or second
    goes_on = spent < rule.most and promising and not evidence.once
    if not measures:
        reason = f"this run has no valid metric{'; being re-tested' if goes_on else ''}"
        return decision(Verdict.CRASH, reason, goes_on)
    if evidence.once:
        return decision(Verdict.DISCARD, "one run of it; all runs together say what it is worth")
    if enough and bar is not None:
        loses = _loses(evidence, (spent - n, spent), len(theirs), rule)
        if delta > bar and not loses:
            return decision(Verdict.KEEP, f"better than the noise allows ({bar:.3g})", _repeat(evidence, ours, rule))
        if delta > bar and not goes_on:
            return decision(Verdict.DISCARD, loses)
    if goes_on:
        chance = "no better than runs that collapsed here by chance; " if second else ""
        reason = f"{chance}being re-tested, run {spent + 1} of {max(spent + 1, rule.least)} to {rule.most}"
        return decision(Verdict.DISCARD, reason, True)
    if delta <= 0 or bar is None:
        why = "no better" if delta <= 0 else "not shown to be better"
    elif enough:
        why = f"not shown to be better in {_runs(spent)} ({bar:.3g} needed)"
    else:
        few = spent >= rule.most
        why = f"too few of its {spent} runs have a valid metric" if few else f"within the noise ({bar:.3g} needed)"
    return decision(Verdict.DISCARD, why)


def like_fallen(objective: Objective, value: float, fallen: float | None, incumbent: Sequence[float]) -> bool:
    """Whether a value is nearer to a run that collapsed, which is a matter of luck, than to the incumbent."""
    return fallen is not None and objective.better((fallen + mean(incumbent)) / 2, value)


def _loses(evidence: RunEvidence, lost: tuple[int, int], surviving: int, rule: DecisionRule) -> str:
    """In words, if an idea loses more of its runs (`lost`: how many of how many) than the incumbent; "" if not."""
    runs = len(evidence.incumbent)
    if share_p(lost, (runs - surviving, runs)) > rule.losing:
        return ""
    return f"it loses {lost[0]} of {_runs(lost[1])}, the incumbent {runs - surviving} of {runs}"


def _repeat(evidence: RunEvidence, ours: Sequence[float], rule: DecisionRule) -> bool:
    """Whether a kept idea needs another run, as it is far noisier than the baseline."""
    sd, own = evidence.baseline_sd, noise_in(ours)
    if not sd or not own.df or len(evidence.values) >= min(rule.repeats, 2 * rule.most):
        return False
    noisier = own.variance > rule.noisier * sd * sd
    return noisier and shrunk(ours, evidence.noise.plus(ours), rule) / len(ours) > (rule.precise * sd) ** 2


def _runs(n: int, spent: int = 0) -> str:
    return f"{n} of {spent} runs" if spent > n else "1 run" if n == 1 else f"{n} runs"


@dataclass(frozen=True, slots=True)
class Resolution:
    """The difference that two runs must exceed to count as different, in the unit of the metric."""

    size: float
    source: str  # where it comes from, as a clause

    def exceeded_by(self, difference: float) -> bool:
        """Whether a difference is larger, and not just by rounding: 0.512 - 0.511 is one unit of 0.001, not more."""
        return difference > self.size and not math.isclose(difference, self.size, rel_tol=1e-6)


def decide_once(objective: Objective, evidence: RunEvidence, resolution: Resolution) -> Decision:
    """Judge an idea by its one run, where a second one would be a copy of it, up to a jitter such as that of kernels.

    It is kept if it differs from the incumbent, for the better, by more than the resolution. That holds for this seed:
    nothing is known of other ones or other data.
    """
    values, incumbent = measured(evidence.values), measured(evidence.incumbent)
    if not (incumbent and measured(evidence.values[-1:])):
        return decide(objective, evidence, DecisionRule(least=1, most=1))
    delta = gain(objective, values, incumbent)
    better, worse = resolution.exceeded_by(delta), resolution.exceeded_by(-delta)
    size = f"{'better' if delta > 0 else 'worse'} by {abs(delta):.3g}" if delta else "no difference"
    within = "within the resolution of" if delta and not (better or worse) else "resolution"
    size = f"{size}, {within} {resolution.size:.3g}"
    size += f" ({resolution.source})" if "jitter" in resolution.source else ""
    status = Verdict.KEEP if better else Verdict.DISCARD
    reason = f"{size}; another run would be a copy"
    return Decision(status, reason, len(values), delta, None, resolution.size)
