"""The rule that was replaced, for comparison, on the same worlds as `simulated`.

One pooled variance; an idea is re-tested while its mean is more than 0.8 sd above the incumbent's, and kept from 4 runs
on if Student's t agrees, 6 at most; 3 baseline runs. Confirmed once, with a fixed number of fresh runs of each side, at
most 6, that is planned for 0.8 of the measured gain; runs without a number are left out.
"""

from __future__ import annotations

import math
import random

from autoresearch.core.statistics.confirmation import p_value
from autoresearch.core.statistics.noise import Noise, mean, measured, noise_of
from autoresearch.core.statistics.student_t import t_cdf, t_quantile
from tests.bench.simulated import SPEC, Outcome, Runs, World, effects_of

TRIGGER, LEAST, MOST, ALPHA = 0.8, 4, 6, 0.06
BASELINE, LEVEL, POWER = 3, 0.04, 0.9


def before(world: World, seed: int) -> Outcome:
    """One campaign."""
    draw, found = Runs(world, random.Random(f"runs {seed}")), Outcome(runs=BASELINE)
    first = incumbent = [v for _ in range(BASELINE) if (v := draw.one(0.0, baseline=True)) is not None]
    noise = noise_of([first])
    for effect in effects_of(world, seed):
        level = effect if world.apart else found.best + effect
        runs, kept = _tried(draw, level, incumbent, noise)
        found.runs += len(runs)
        noise = noise.plus(runs)
        if kept:
            found.true += level > found.best
            found.false += level <= found.best
            found.best, incumbent = level, measured(runs)
    if (found.true or found.false) and first:
        _proved(draw, found, mean(incumbent) - mean(first), noise)
    return found


def _tried(draw: Runs, level: float, incumbent: list[float], noise: Noise) -> tuple[list[float | None], bool]:
    """The runs of one idea, and whether it is kept."""
    runs: list[float | None] = []
    while True:
        runs.append(draw.one(level))
        values, known = measured(runs), noise.plus(runs)
        if not values or not incumbent or known.sd is None:
            return runs, False
        delta = mean(values) - mean(incumbent)
        bar = t_quantile(1 - ALPHA, known.df) * known.sd * math.sqrt(1 / len(values) + 1 / len(incumbent))
        if len(values) >= LEAST and runs[-1] is not None and delta > bar:
            return runs, True
        if len(runs) >= MOST or delta <= TRIGGER * known.sd:
            return runs, False


def _proved(draw: Runs, found: Outcome, measured_gain: float, noise: Noise) -> None:
    """The only round of confirmation."""
    size = next((n for n in (4, 5, 6) if _power(0.8 * measured_gain, noise, n) >= POWER), 6)
    found.rounds, found.fresh = 1, 2 * size
    found.tested.append(found.best)
    pairs = [(draw.one(0.0, baseline=True), draw.one(found.best)) for _ in range(size)]
    theirs, ours = (measured(side) for side in zip(*pairs, strict=True))
    enough = min(len(ours), len(theirs)) >= 2 and 1 / math.comb(len(ours) + len(theirs), len(ours)) <= LEVEL
    if enough and p_value(SPEC.objective, ours, theirs) <= LEVEL:
        found.claimed.append(found.best)
        found.excess.append(mean(ours) - mean(theirs) - found.best)


def _power(effect: float, noise: Noise, n: int) -> float:
    if not noise.sd or effect <= 0:
        return 0.0
    df = 2 * n - 2
    return t_cdf(effect / (noise.sd * math.sqrt(2 / n)) - t_quantile(1 - LEVEL, df), df)
