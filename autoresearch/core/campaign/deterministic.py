"""The decision where the seed does nothing that can be seen: one run of each idea, against a stated resolution.

A second run of an idea would be a copy of its first, up to a jitter such as that of GPU kernels: no number of copies
says more than one of them. So an idea is kept if it differs from the incumbent, for the better, by more than the
resolution, and what is kept is called `deterministic`: that it is better in this one setting is seen, and nothing is
known of other seeds or other data.

The resolution is the campaign's `resolution`, in the unit of the metric; without one it is the largest of

- one unit of the last digit in which the metric is written: each of two rounded values is off by up to half a unit,
  so a difference of one may be next to nothing before rounding;
- 1e-9 of the baseline's value, as numbers in full precision differ by rounding errors;
- where the copies of the baseline jitter, t(0.99, df) * sqrt(2) * sd, with the standard deviation of n copies and
  df = n - 1: a further copy is better than another by more than that once in a hundred times (Student's t; the jitter
  is taken to be normal, and of one size for all ideas). For three copies that is 9.85 sd, for five 5.30. A
  campaign of 24 worthless ideas so keeps 0.23 of them on average, or fewer, as the baseline's mean is more precise
  than one run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.campaign.decision import Decision, DecisionRule, RunEvidence, decide, gain
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.noise import mean, measured, noise_of
from autoresearch.core.statistics.seeding import last_digit
from autoresearch.core.statistics.student_t import t_quantile

LEVEL = 0.01
"""How often the jitter alone makes a worthless idea better than the resolution, one-sided."""
ROUNDING = 1e-9
"""Of the baseline's value: differences up to this are rounding errors."""
ONCE = DecisionRule(least=1, most=1)


@dataclass(frozen=True, slots=True)
class Resolution:
    """The difference that two runs must exceed to count as different, in the unit of the metric."""

    size: float
    source: str  # where it comes from, as a clause

    def exceeded_by(self, difference: float) -> bool:
        """Whether a difference is larger, and not just by rounding: 0.512 - 0.511 is one unit of 0.001, not more."""
        return difference > self.size and not math.isclose(difference, self.size, rel_tol=1e-6)


def resolution_of(state: CampaignState, values: Sequence[float | None] = ()) -> Resolution:
    """The resolution of a campaign; `values`: of a run that has no row yet, which may show further digits."""
    if state.spec.resolution is not None:
        return Resolution(state.spec.resolution, "as set")
    copies = state.baseline.values if state.baseline else []
    step = state.seed_check.step if state.seed_check and state.seed_check.step is not None else math.inf
    known = state.memo("last_digit", lambda: last_digit(value for idea in state.ideas for value in idea.values))
    step = min(step, known, last_digit(measured(values)))
    found = Resolution(step, "one unit of the last digit")
    rounding = ROUNDING * abs(mean(copies)) if copies else 0.0
    if rounding > step:
        found = Resolution(rounding, "a rounding error")
    jitter = noise_of([copies])
    if jitter.sd:
        times = t_quantile(1 - LEVEL, jitter.df) * math.sqrt(2)
        source = f"{times:.3g} times the jitter, sd {jitter.sd:.2g} of {len(copies)} copies"
        found = max(found, Resolution(times * jitter.sd, source), key=lambda one: one.size)
    return found


def decide_once(objective: Objective, evidence: RunEvidence, resolution: Resolution) -> Decision:
    """Judge an idea by its one run."""
    values, incumbent = measured(evidence.values), measured(evidence.incumbent)
    if evidence.smoke or not (incumbent and measured(evidence.values[-1:])):
        return decide(objective, evidence, ONCE)
    delta = gain(objective, values, incumbent)
    better, worse = resolution.exceeded_by(delta), resolution.exceeded_by(-delta)
    flat = not worse and not (evidence.anchor and resolution.exceeded_by(-gain(objective, values, evidence.anchor)))
    size = f"{'better' if delta > 0 else 'worse'} by {abs(delta):.3g}" if delta else "no difference"
    within = "within the resolution of" if delta and not (better or worse) else "resolution"
    size = f"{size}, {within} {resolution.size:.3g}"
    size += f" ({resolution.source})" if "jitter" in resolution.source else ""
    kept = better or (evidence.simpler and flat)
    size = f"as good and simpler: {size}" if kept and not better else size
    reason = f"{size}; deterministic: one run tells"
    status = Verdict.KEEP if kept else Verdict.DISCARD
    return Decision(status, reason, len(values), delta, evidence.noise.sd, resolution.size)


def claim_words(state: CampaignState, idea: Idea) -> tuple[str, float | None]:
    """What may be said of a kept idea in the end, and its gain over the baseline; None if that was not measured."""
    baseline = state.baseline
    if baseline is None or not baseline.values or not idea.values:
        return "nothing to compare it with was measured", None
    delta, resolution = gain(state.spec.objective, idea.values, baseline.values), resolution_of(state)
    size = f"by {delta:.3g}, resolution {resolution.size:.3g}"
    better = f"better than the baseline {size}" if resolution.exceeded_by(delta) else "no better than the baseline"
    return f"{better}; runs are copies, so no fresh ones can test it", delta
