"""Decision: keep, discard or crash for one idea, after each of its runs. docs/judge.md says it in formulas.

As in the git workflow of NeMo-RL's auto-research skill: `keep` is better, or flat but simpler; `crash` has no
valid metric; everything else is `discard`. In addition, noise is taken into account: one lucky run is not kept.

1. An idea is re-tested, one run with another seed at a time, as long as its mean exceeds the incumbent's by more than
   `first` standard errors of the difference, and by more than `again` of them after its second run.
2. From `least` runs on it is kept if the difference of the means passes a one-sided t-test at `alpha`. The variance of
   each side is its own, shrunk towards that of all replicates of the campaign as if they were `prior` degrees of
   freedom (G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004); the degrees of freedom are F. E. Satterthwaite's.
3. At `most` runs it is discarded.
4. Runs that collapsed (`core.statistics.noise`) are left out of both means; an idea that loses more of its runs than
   the incumbent, by an exact test at `losing`, is not kept. One whose first run collapsed has a second one where
   collapses are known to be a matter of luck.
5. A kept idea that is much noisier than the baseline is run again while the search builds on it: an incumbent that
   was overestimated stops everything that comes after it.

`alpha` is not an error rate: an idea is tested several times, and re-tested only because its first run was good. The
overall rates are simulated (`python -m tests.bench judge`), and docs/judge.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.noise import UNKNOWN, Noise, mean, measured, spread_of, survivors
from autoresearch.core.statistics.student_t import share_p, t_quantile


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """When to re-test and when to keep; docs/judge.md has the defaults beside others."""

    first: float = 0.9  # standard errors by which an idea's first run must exceed the incumbent's mean
    again: float = 1.1  # the same for its mean after further runs
    least: int = 4  # runs with a metric required before anything is kept
    most: int = 7  # runs of one idea at most, those without a metric included
    alpha: float = 0.03  # one-sided level of the t-test
    prior: int = 4  # degrees of freedom that the campaign's noise stands for in the variance of one idea
    losing: float = 0.1  # one-sided level of the test whether an idea loses more runs than the incumbent
    flat: float = 0.5  # how far below the incumbent and the anchor a simpler idea may lie, in sd
    noisier: float = 2.5  # times the baseline's variance from which on a kept idea is run again
    precise: float = 0.5  # standard error of a kept idea's mean that is enough, in sd of the baseline
    repeats: int = 14  # runs of such an idea at most


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """The measurements to decide on. None, NaN and infinities are runs without a metric."""

    values: Sequence[float | None]  # of this idea's runs, in order; the last is the one that has just ended
    incumbent: Sequence[float | None]  # of the idea to beat; empty: this is the baseline itself
    noise: Noise = UNKNOWN  # pooled over every other idea, baseline and incumbent included
    simpler: bool = False  # declared simpler than its parent, and confirmed by the diff
    smoke: bool = False  # underpowered, declared or because of few steps: validates plumbing, judges nothing
    anchor: Sequence[float] = ()  # of the best idea that was kept on merit; empty: the incumbent
    robust_sd: float | None = None  # of a run within its idea, by which runs that collapsed are known
    fallen: float | None = None  # the best value of any run that collapsed
    kept: bool = False  # it is kept already, and the search builds on it: further runs only measure it better
    baseline_sd: float | None = None  # of the baseline's own runs


@dataclass(frozen=True, slots=True)
class Decision:
    """Status and reason for the row of the run that has just ended, and whether the idea needs another run."""

    status: Verdict
    reason: str  # one short sentence with the numbers, for the row's description
    n: int  # runs of this idea with a metric
    delta: float | None = None  # mean minus the incumbent's mean, in the metric's unit; positive is better
    noise: float | None = None  # sd of a single run, in the metric's unit
    threshold: float | None = None  # what delta has to exceed: to be re-tested; from `least` runs on, to be kept
    retests: int = 0  # further runs with other seeds to start now; 0: the decision is final
    judged: bool = True  # False: a smoke run, no evidence for or against the idea

    @property
    def retest(self) -> bool:
        return self.retests > 0


DEFAULT = DecisionRule()


def decide(objective: Objective, evidence: RunEvidence, rule: DecisionRule = DEFAULT) -> Decision:
    """Judge an idea after its latest run.

    Earlier rows keep the decisions made at their time; an idea's status is that of its last decision.
    """
    values, incumbent = measured(evidence.values), measured(evidence.incumbent)
    if evidence.smoke:
        return _smoke(evidence, len(values))
    if not values:
        return Decision(Verdict.CRASH, "no valid metric", 0)
    if not evidence.incumbent:
        return _baseline(evidence)
    if not incumbent:
        status = Verdict.DISCARD if measured(evidence.values[-1:]) else Verdict.CRASH
        return Decision(status, "the incumbent has no valid metric to compare with", len(values))
    return _compare(objective, evidence, rule)


def gain(objective: Objective, ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Difference of the means, in the metric's unit; positive is better. Equal up to rounding is 0."""
    a, b = mean(ours), mean(theirs)
    if math.isclose(a, b, rel_tol=1e-9):
        return 0.0
    return a - b if objective.direction is Direction.MAXIMIZE else b - a


def _smoke(evidence: RunEvidence, n: int) -> Decision:
    if not measured(evidence.values[-1:]):
        return Decision(Verdict.CRASH, "smoke run without a valid metric: the plumbing leaks", n, judged=False)
    return Decision(Verdict.DISCARD, "smoke run: the plumbing works; it judges nothing", n, judged=False)


def _baseline(evidence: RunEvidence) -> Decision:
    values = measured(evidence.values)
    noise = evidence.noise.plus(values)
    if not measured(evidence.values[-1:]):
        return Decision(Verdict.CRASH, "baseline run without a valid metric", len(values), noise=noise.sd)
    reason = f"baseline: mean {mean(values):.4g} of {_runs(len(values))}, {noise.wording}"
    return Decision(Verdict.KEEP, reason, len(values), 0.0, noise.sd)


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """The difference of two means, without the runs that collapsed."""

    delta: float  # difference of the means; positive is better
    noise: Noise  # of all ideas, this one included
    variances: tuple[float, float]  # of a single run of either side, shrunk towards the noise
    counts: tuple[int, int]
    df: float  # of the difference; 0 while the noise is unknown

    @property
    def se(self) -> float:
        """Standard error of the difference."""
        return math.sqrt(sum(v / n for v, n in zip(self.variances, self.counts, strict=True)))

    def bar(self, alpha: float) -> float:
        """What delta has to exceed at this one-sided level."""
        return t_quantile(1 - alpha, math.floor(10 * self.df) / 10) * self.se if self.df else math.inf


def compared(
    objective: Objective, ours: Sequence[float], theirs: Sequence[float], noise: Noise, rule: DecisionRule
) -> MeanDifference:
    """Compare the values of two ideas. `noise`: of all others, and of `theirs`."""
    noise = noise.plus(ours)
    sides = [spread_of(values) for values in (ours, theirs)]
    prior = min(rule.prior, noise.df)
    shrunk = [_shrunk(noise, side.squares, side.df, rule.prior) for side in sides]
    parts = [v / len(values) for v, values in zip(shrunk, (ours, theirs), strict=True)]
    total = sum(parts)
    df = float(noise.df)
    if prior and 0 < total < math.inf:
        df = 1 / sum((part / total) ** 2 / (prior + side.df) for part, side in zip(parts, sides, strict=True))
    delta = gain(objective, ours, theirs)
    return MeanDifference(delta, noise, (shrunk[0], shrunk[1]), (len(ours), len(theirs)), df)


def _shrunk(noise: Noise, squares: float, df: int, prior: int) -> float:
    return (prior * noise.variance + squares) / (prior + df)


def _compare(objective: Objective, evidence: RunEvidence, rule: DecisionRule) -> Decision:
    ours = survivors(objective, evidence.values, evidence.robust_sd)
    theirs = survivors(objective, evidence.incumbent, evidence.robust_sd)
    spent, n = len(evidence.values), len(ours)
    found = compared(objective, ours, theirs, evidence.noise, rule)
    noise = found.noise
    step = (rule.first if n == 1 else rule.again) * found.se if noise.known else 0.0
    bar = None if not noise.known else found.bar(rule.alpha) if n >= rule.least else step
    counts = f"{_share(n, spent)} against {_runs(len(theirs), len(evidence.incumbent))}"
    numbers = f"{objective.change(found.delta):+.3g} from {mean(theirs):.4g} ({counts}, {noise.wording})"

    def decision(status: Verdict, reason: str, retests: int = 0) -> Decision:
        return Decision(status, f"{numbers}: {reason}", n, found.delta, noise.sd, bar, retests)

    simpler = evidence.simpler and _flat(objective, ours, evidence, found, rule)
    if evidence.kept and measured(evidence.values[-1:]):
        again = _repeat(evidence, ours, rule)
        return decision(Verdict.KEEP, "kept, and run again to measure it better" if again else "kept", again)
    second = len(evidence.values) == 1 and like_fallen(objective, ours[0], evidence.fallen, theirs)
    promising = found.delta > step or (evidence.simpler and found.delta >= -step) or second
    goes_on = spent < rule.most and promising
    if not measured(evidence.values[-1:]):
        reason = f"this run has no valid metric{'; being re-tested' if goes_on else ''}"
        return decision(Verdict.CRASH, reason, int(goes_on))
    if n >= rule.least and bar is not None:
        loses = _loses(objective, evidence, rule)
        if found.delta > bar and not loses:
            return decision(Verdict.KEEP, f"better than the noise allows ({bar:.3g})", _repeat(evidence, ours, rule))
        if simpler and not loses:
            return decision(Verdict.KEEP, "flat but simpler")
        if found.delta > bar and not goes_on:
            return decision(Verdict.DISCARD, loses)
    if goes_on:
        chance = "no better than runs that collapsed here by chance; " if second else ""
        reason = f"{chance}being re-tested, run {spent + 1} of {max(spent + 1, rule.least)} to {rule.most}"
        return decision(Verdict.DISCARD, reason, 1)
    return decision(Verdict.DISCARD, _why_not(found.delta, bar, n, spent, rule))


def _flat(
    objective: Objective, ours: Sequence[float], evidence: RunEvidence, difference: MeanDifference, rule: DecisionRule
) -> bool:
    """Whether a simpler idea is as good: near the incumbent, and near the best that was kept on merit.

    Without the second, a row of simpler ideas, each a little worse than the one before, would lead the search downhill.
    """
    if difference.noise.sd is None:
        return True
    allowed = -rule.flat * difference.noise.sd
    anchored = not evidence.anchor or gain(objective, ours, evidence.anchor) >= allowed
    return difference.delta >= allowed and anchored


def like_fallen(objective: Objective, value: float, fallen: float | None, incumbent: Sequence[float]) -> bool:
    """Whether a value is nearer to a run that collapsed, which is a matter of luck, than to the incumbent."""
    return fallen is not None and objective.better((fallen + mean(incumbent)) / 2, value)


def _loses(objective: Objective, evidence: RunEvidence, rule: DecisionRule) -> str:
    """In words, if an idea loses more of its runs than the incumbent; "" if not."""
    sides = [
        (len(values) - len(survivors(objective, values, evidence.robust_sd)), len(values))
        for values in (evidence.values, evidence.incumbent)
    ]
    if share_p(sides[0], sides[1]) > rule.losing:
        return ""
    return f"it loses {sides[0][0]} of {_runs(sides[0][1])}, the incumbent {sides[1][0]} of {sides[1][1]}"


def _repeat(evidence: RunEvidence, ours: Sequence[float], rule: DecisionRule) -> int:
    """Whether a kept idea needs another run, as it is far noisier than the baseline: 1 or 0."""
    sd, own = evidence.baseline_sd, spread_of(ours)
    if not sd or not own.df or len(evidence.values) >= min(rule.repeats, 2 * rule.most):
        return 0
    shrunk = _shrunk(evidence.noise.plus(ours), own.squares, own.df, rule.prior)
    noisier = own.squares / own.df > rule.noisier * sd * sd
    return int(noisier and shrunk / len(ours) > (rule.precise * sd) ** 2)


def _why_not(delta: float, bar: float | None, n: int, spent: int, rule: DecisionRule) -> str:
    if delta <= 0 or bar is None:
        return "no better" if delta <= 0 else "not shown to be better"
    if spent >= rule.most and n < rule.least:
        return f"too few of its {spent} runs have a valid metric"
    if n >= rule.least:
        return f"not shown to be better in {_runs(spent)} ({bar:.3g} needed)"
    return f"within the noise ({bar:.3g} needed)"


def _share(n: int, spent: int) -> str:
    return f"{n}" if n == spent else f"{n} of {spent}"


def _runs(n: int, spent: int = 0) -> str:
    return f"{n} of {spent} runs" if spent > n else "1 run" if n == 1 else f"{n} runs"
