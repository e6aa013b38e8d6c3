"""Decision: keep, discard or crash for one idea, after each of its runs.

As in the git workflow of NeMo-RL's auto-research skill: `keep` is better, or flat but simpler; `crash` has no
valid metric; all else is `discard`. What is added is the noise. One lucky run keeps nothing:

1. An idea goes on being re-tested, one run with another seed at a time, as long as its mean is more than
   `trigger` sd above the incumbent's. Its rows say `discard` meanwhile, and that it is being re-tested.
2. From `least` runs on it is kept if the difference of the means passes Student's t:
   gain > t(1 - alpha, df) * sd * sqrt(1/n + 1/n_incumbent), sd pooled over all replicates of the campaign.
3. At `most` runs it is discarded.

`alpha` is no error rate: an idea is looked at up to `most - least + 1` times and its first run was a choice,
while the trigger asks more than t does. The error rate of the whole, and the numbers below, are measured by
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
of 1 sd 0.41, 0.07, 1.27: what is no larger than the noise takes more runs than this to find. A keep's apparent
gain flatters it by 0.15 sd.

Below 4 runs the mean of an idea that is kept is a poor incumbent for all later ones, which costs more than its
fourth run. Re-testing the incumbent too, a variance without the first run of each idea, and other triggers
for the later runs gained about 0.02 or nothing at the same false keeps and runs.
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
    """When to re-test and when to keep; see the module for how the defaults were found."""

    trigger: float = 0.8  # sd of a single run over the incumbent's mean, to go on
    least: int = 4  # runs with a metric before anything is kept
    most: int = 6  # runs of one idea, those without a metric included
    alpha: float = 0.06  # one-sided level of Student's t
    flat: float = 0.5  # sd below the incumbent's mean that a simpler idea may lie


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """What is known when a run is over. None, NaN and infinities are runs without a metric."""

    values: Sequence[float | None]  # of this idea's runs, in order; the last is the one that has just ended
    incumbent: Sequence[float | None]  # of what it has to beat; empty: this is the baseline itself
    noise: Noise = UNKNOWN  # pooled over every other idea, baseline and incumbent included
    simpler: bool = False  # declared simpler than its parent, and shown to be by the diff
    smoke: bool = False  # underpowered, declared or by its few steps: validates plumbing, judges nothing


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write in the row of the run that has just ended, and whether the idea wants another one."""

    status: Verdict
    reason: str  # one short sentence with the numbers, for the row's description
    n: int  # runs of this idea with a metric
    delta: float | None = None  # mean over the incumbent's mean, the metric's unit; positive is better
    noise: float | None = None  # sd of a single run, the metric's unit
    threshold: float | None = None  # what delta had to exceed: the trigger; from `least` runs on, Student's bar
    retests: int = 0  # runs with other seeds wanted now; 0: the idea is decided
    judged: bool = True  # False: a smoke run, which says nothing for or against the idea

    @property
    def retest(self) -> bool:
        """Whether it is being re-tested."""
        return self.retests > 0


DEFAULT = DecisionRule()


def decide(objective: Objective, evidence: RunEvidence, rule: DecisionRule = DEFAULT) -> Decision:
    """Judge an idea after its latest run.

    What was decided about its earlier rows stands in them; an idea's status is that of its last decision.
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
    """Difference of the means, the metric's unit; positive is better. Equal up to rounding is 0."""
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
    """What delta has to exceed with so many runs, the metric's unit; None while the noise is unknown."""
    if noise.sd is None:
        return None
    if n < rule.least:
        return rule.trigger * noise.sd
    return t_quantile(1 - rule.alpha, noise.df) * noise.sd * math.sqrt(1 / n + 1 / n_incumbent)


def _promising(delta: float, noise: Noise, simpler: bool, rule: DecisionRule) -> bool:
    """Whether another run is worth its cost. With unknown noise whatever is better is: its re-tests tell the noise."""
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
