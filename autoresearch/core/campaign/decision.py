"""Decision: keep, discard or crash for one idea, after each of its runs.

As in the git workflow of NeMo-RL's auto-research skill: `keep` is better, or flat but simpler; `crash` has no
valid metric; everything else is `discard`. In addition, noise is taken into account: one lucky run is not kept.

1. An idea is re-tested, one run with another seed at a time, as long as its mean exceeds the incumbent's by more
   than `trigger` sd. Meanwhile its rows have the status `discard`, with a note that it is being re-tested.
2. From `least` runs on it is kept if the difference of the means passes Student's t:
   gain > t(1 - alpha, df) * sd * sqrt(1/n + 1/n_incumbent), sd pooled over all replicates of the campaign.
3. At `most` runs it is discarded.

`alpha` is not an error rate: an idea is tested up to `most - least + 1` times and re-tested only because its
first run was good, while the trigger is stricter than t. The overall error rate and the numbers below are measured by
simulation (`python -m tests.bench.ratchet`): 50 ideas, one in ten truly better than its parent by 2 sd, 3
baseline runs. True keeps, false keeps and runs are divided by those of the greedy ratchet, which keeps whatever
beats the best single run so far (3.2 of 5 true, 5.8 false, 51 runs). 4,000 campaigns per line, on seeds that
nothing was tuned on; standard error of `true` 0.01:

    trigger  least  most  alpha    true  false  runs
      0.8      4     6    0.06     0.94  0.08   1.45    the default
      0.8      4     6    0.07     0.95  0.09   1.44
      0.8      4     6    0.05     0.92  0.07   1.46
      0.8      4     5    0.06     0.91  0.08   1.44
      0.9      4     6    0.06     0.88  0.07   1.40    saves runs, loses finds
      0.75     3     5    0.05     0.81  0.07   1.38
      1.0      3     4    0.05     0.67  0.06   1.27    1 sigma and three re-tests, the textbook's guess

The default elsewhere (true, false, runs): 24 ideas 0.92, 0.09, 1.54; 100 ideas 0.95, 0.07, 1.39; 5 baseline
runs 0.99, 0.08, 1.49; 2 of them 0.86, 0.08, 1.42; 1 of them 0.72, 0.07, 1.42; effects of 3 sd 1.05, 0.11, 1.59;
of 1 sd 0.41, 0.07, 1.27: effects no larger than the noise take more runs than this to find. The measured gain of
a kept idea overstates the true one by 0.15 sd.

With fewer than 4 runs, the mean of a kept idea is too imprecise an incumbent for all later ideas, which costs more
than the fourth run does. Re-testing the incumbent too, a variance without the first run of each idea, and other
triggers for the later runs gained about 0.02 or nothing at the same false keeps and runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.noise import UNKNOWN, Noise, mean, measured
from autoresearch.core.statistics.student_t import t_quantile


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """When to re-test and when to keep; the module docstring tells how the defaults were found."""

    trigger: float = 0.8  # sd of a single run that an idea must exceed the incumbent's mean by to be re-tested
    least: int = 4  # runs with a metric required before anything is kept
    most: int = 6  # runs of one idea at most, those without a metric included
    alpha: float = 0.06  # one-sided level of Student's t
    flat: float = 0.5  # how far below the incumbent's mean a simpler idea may lie, in sd


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """The measurements to decide on. None, NaN and infinities are runs without a metric."""

    values: Sequence[float | None]  # of this idea's runs, in order; the last is the one that has just ended
    incumbent: Sequence[float | None]  # of the idea to beat; empty: this is the baseline itself
    noise: Noise = UNKNOWN  # pooled over every other idea, baseline and incumbent included
    simpler: bool = False  # declared simpler than its parent, and confirmed by the diff
    smoke: bool = False  # underpowered, declared or because of few steps: validates plumbing, judges nothing


@dataclass(frozen=True, slots=True)
class Decision:
    """Status and reason for the row of the run that has just ended, and whether the idea needs another run."""

    status: Verdict
    reason: str  # one short sentence with the numbers, for the row's description
    n: int  # runs of this idea with a metric
    delta: float | None = None  # mean minus the incumbent's mean, in the metric's unit; positive is better
    noise: float | None = None  # sd of a single run, in the metric's unit
    threshold: float | None = None  # what delta has to exceed: the trigger; from `least` runs on, Student's bound
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


def _compare(objective: Objective, evidence: RunEvidence, rule: DecisionRule) -> Decision:
    values, incumbent = measured(evidence.values), measured(evidence.incumbent)
    n, spent = len(values), len(evidence.values)
    noise = evidence.noise.plus(values)
    delta = gain(objective, values, incumbent)
    bar = _bar(noise, n, len(incumbent), rule)
    numbers = f"{delta:+.3g} over {mean(incumbent):.4g} ({n} against {_runs(len(incumbent))}, {noise.wording})"

    def decision(status: Verdict, reason: str, retests: int = 0) -> Decision:
        return Decision(status, f"{numbers}: {reason}", n, delta, noise.sd, bar, retests)

    goes_on = spent < rule.most and _promising(delta, noise, evidence.simpler, rule)
    if not measured(evidence.values[-1:]):
        reason = f"this run has no valid metric{'; being re-tested' if goes_on else ''}"
        return decision(Verdict.CRASH, reason, int(goes_on))
    if n >= rule.least and bar is not None:
        if delta > bar:
            return decision(Verdict.KEEP, f"better than the noise allows ({bar:.3g})")
        if evidence.simpler and _flat(delta, noise, rule):
            return decision(Verdict.KEEP, "flat but simpler")
    if goes_on:
        reason = f"being re-tested, run {spent + 1} of {max(spent + 1, rule.least)} to {rule.most}"
        return decision(Verdict.DISCARD, reason, 1)
    return decision(Verdict.DISCARD, _why_not(delta, bar, n, spent, rule))


def _bar(noise: Noise, n: int, n_incumbent: int, rule: DecisionRule) -> float | None:
    """The value that delta has to exceed after n runs, in the metric's unit; None while the noise is unknown."""
    if noise.sd is None:
        return None
    if n < rule.least:
        return rule.trigger * noise.sd
    return t_quantile(1 - rule.alpha, noise.df) * noise.sd * math.sqrt(1 / n + 1 / n_incumbent)


def _promising(delta: float, noise: Noise, simpler: bool, rule: DecisionRule) -> bool:
    """Whether another run is worth its cost. While the noise is unknown, any improvement is re-tested to measure it."""
    if noise.sd is None:
        return delta > 0 or simpler
    return delta > rule.trigger * noise.sd or (simpler and delta >= -rule.trigger * noise.sd)


def _flat(delta: float, noise: Noise, rule: DecisionRule) -> bool:
    return noise.sd is not None and delta >= -rule.flat * noise.sd


def _why_not(delta: float, bar: float | None, n: int, spent: int, rule: DecisionRule) -> str:
    if delta <= 0 or bar is None:
        return "no better" if delta <= 0 else "not shown to be better"
    if spent >= rule.most and n < rule.least:
        return f"too few of its {spent} runs have a valid metric"
    if spent >= rule.most:
        return f"not shown to be better in {spent} runs ({bar:.3g} needed)"
    return f"within the noise ({rule.trigger:g} sd needed)"


def _runs(n: int) -> str:
    return "1 run" if n == 1 else f"{n} runs"
