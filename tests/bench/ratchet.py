"""Simulated campaigns: how many ideas that work, and how many that do not, a rule keeps and claims.

    python -m tests.bench.ratchet [campaigns]     prints the tables that the docstrings of core/ quote

A run of an idea gives its true level plus Gaussian noise of sd 1. An idea is true with probability `share`,
and is then better by `effect`; else it changes nothing. Better than what?

- parent (the default): than the incumbent that it was built on, as in a ratchet; effects add up, so every true
  idea can be found whatever was kept before, and a rule that rests after its first find loses. A true find is
  a kept idea that is truly better than its parent. The published figures of the greedy ratchet (3.15 true,
  5.9 false, 51 runs) are of this reading, and real searches go on finding.
- baseline: than the baseline, whatever was kept. A true find is a kept idea that is truly better than the
  incumbent that it replaced, so there is one to find, unless a false keep loses it again; the greedy ratchet
  loses and finds again, which counts for it (1.05 true, 2.6 false). Ours makes 0.86 of its true finds and 0.10
  of its false ones in 1.20 of its runs, and ends at 1.81 sd, the greedy one at 1.69.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from autoresearch.core.campaign.decision import DEFAULT, DecisionRule, RunEvidence, decide
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.confirmation import Claim, confirm
from autoresearch.core.statistics.noise import Noise, noise_of

REWARD = Objective("reward")


@dataclass(frozen=True)
class World:
    """What the ideas are like; sd 1 everywhere."""

    ideas: int = 50
    share: float = 0.1
    effect: float = 2.0
    from_parent: bool = True
    baseline: int = 3  # replicates, for ours; the greedy ratchet runs it once
    fresh: int = 5  # runs of the candidate and of the baseline that confirm

    def levels(self, rng: random.Random) -> list[float]:
        """The effect of each idea."""
        return [self.effect if rng.random() < self.share else 0.0 for _ in range(self.ideas)]


@dataclass
class Campaign:
    """What one simulated campaign came to."""

    runs: int = 0
    true: int = 0  # ideas kept that are better than what they replaced
    false: int = 0  # ideas kept that are not
    kept: list[float] = field(default_factory=list)  # true levels, in order
    bias: list[float] = field(default_factory=list)  # apparent gain of a kept idea less its true gain
    best: float = 0.0  # true level of the last incumbent
    singles: list[float] = field(default_factory=list)  # every single run, the greedy way

    def keep(self, level: float) -> None:
        """An idea of this true level replaces the incumbent."""
        self.true += level > self.best
        self.false += level <= self.best
        self.best = level
        self.kept.append(level)


def greedy(world: World, seed: int) -> Campaign:
    """The ratchet of single runs: whatever beats the best run so far is kept."""
    rng = random.Random(f"ideas {seed}")
    effects = world.levels(rng)
    campaign = Campaign(runs=1)
    best = rng.gauss(0, 1)
    campaign.singles.append(best)
    for effect in effects:
        level = effect + (campaign.best if world.from_parent else 0.0)
        value = rng.gauss(level, 1)
        campaign.runs += 1
        campaign.singles.append(value)
        if value > best:
            best = value
            campaign.keep(level)
    return campaign


def gated(world: World, seed: int, rule: DecisionRule = DEFAULT) -> Campaign:
    """Ours: `decide` after each run, as a campaign calls it."""
    rng = random.Random(f"ideas {seed}")
    effects = world.levels(rng)  # the same ideas as the greedy ratchet gets
    incumbent = [rng.gauss(0, 1) for _ in range(world.baseline)]
    noise = noise_of([incumbent])
    campaign = Campaign(runs=world.baseline)
    for effect in effects:
        level = effect + (campaign.best if world.from_parent else 0.0)
        values, status, delta = _try(rng, level, (incumbent, noise), rule)
        campaign.runs += len(values)
        noise = noise.plus(values)
        if status is Verdict.KEEP:
            campaign.bias.append(delta - (level - campaign.best))
            campaign.keep(level)
            incumbent = values
    return campaign


def _try(
    rng: random.Random, level: float, known: tuple[list[float], Noise], rule: DecisionRule
) -> tuple[list[float], Verdict, float]:
    """One idea, run until it is decided: its values, its status, its apparent gain."""
    values: list[float] = []
    while True:
        values.append(rng.gauss(level, 1))
        decision = decide(REWARD, RunEvidence(values, *known), rule)
        if not decision.retest:
            return values, decision.status, decision.delta or 0.0


def claims(world: World, seed: int, levels: Sequence[float]) -> list[bool]:
    """Whether each idea of these true levels is confirmed, in one round with fresh runs."""
    rng = random.Random(f"fresh {world.ideas} {seed}")
    baseline = [rng.gauss(0, 1) for _ in range(world.fresh)]
    runs = {index: [rng.gauss(level, 1) for _ in range(world.fresh)] for index, level in enumerate(levels)}
    return [result.claim is Claim.CONFIRMED for result in confirm(REWARD, baseline, runs).values()]


def looks_real(singles: Sequence[float]) -> bool:
    """The published confidence score, "likely real" from 2.0 on: |best - baseline| / MAD of all single runs."""
    middle = statistics.median(singles)
    mad = statistics.median(abs(value - middle) for value in singles)
    return abs(max(singles) - singles[0]) >= 2.0 * mad


@dataclass(frozen=True)
class Noisy:
    """Pure noise: shares of the campaigns that claim anything, in percent."""

    last: float  # ours: the last kept idea is put to confirmation
    every: float  # ours: every kept idea is
    forced: float  # one idea always is, kept or not: the level of the test itself
    published: float  # the published confidence score calls the greedy ratchet's best "likely real"


def pure_noise(ideas: int, seeds: Iterable[int]) -> Noisy:
    """Campaigns in which no idea works."""
    world = World(ideas=ideas, share=0.0)
    last, every, forced, published = [], [], [], []
    for seed in seeds:
        kept = gated(world, seed).kept
        every.append(any(claims(world, seed, kept)))
        last.append(any(claims(world, seed, kept[-1:])))
        forced.append(any(claims(world, seed, [0.0])))
        published.append(looks_real(greedy(world, seed).singles))
    return Noisy(*(100 * statistics.fmean(found) for found in (last, every, forced, published)))


@dataclass(frozen=True)
class Finds:
    """Means per campaign."""

    true: float
    false: float
    runs: float
    best: float

    def over(self, other: Finds) -> tuple[float, float, float]:
        """True keeps, false keeps and runs, each divided by the other's."""
        return self.true / other.true, self.false / other.false, self.runs / other.runs


def finds(play: Callable[[World, int], Campaign], world: World, seeds: Iterable[int]) -> Finds:
    """What a rule finds on average."""
    played = [play(world, seed) for seed in seeds]
    mean = statistics.fmean
    return Finds(
        mean(c.true for c in played),
        mean(c.false for c in played),
        mean(c.runs for c in played),
        mean(c.best for c in played),
    )


RULES = (
    DEFAULT,
    DecisionRule(alpha=0.07),
    DecisionRule(alpha=0.05),
    DecisionRule(most=5),
    DecisionRule(trigger=0.9),
    DecisionRule(trigger=0.75, least=3, most=5, alpha=0.05),
    DecisionRule(trigger=1.0, least=3, most=4, alpha=0.05),
)
WORLDS = {
    "as tuned": World(),
    "effects from the baseline": World(from_parent=False),
    "effects of 1 sd": World(effect=1.0),
    "effects of 3 sd": World(effect=3.0),
    "24 ideas": World(ideas=24),
    "100 ideas": World(ideas=100),
    "2 baseline runs": World(baseline=2),
    "5 baseline runs": World(baseline=5),
    "1 baseline run": World(baseline=1),
}


def main() -> None:
    """Print the tables."""
    campaigns = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seeds = range(500_000, 500_000 + campaigns)
    base = finds(greedy, World(), seeds)
    print("greedy", base)
    for rule in RULES:
        ours = finds(lambda world, seed, rule=rule: gated(world, seed, rule), World(), seeds)  # type: ignore[misc]
        print(
            "true {:.3f} false {:.3f} runs {:.3f}".format(*ours.over(base)), f"best {ours.best:.2f}", rule, flush=True
        )
    for name, world in WORLDS.items():
        base, ours = finds(greedy, world, seeds), finds(gated, world, seeds)
        print(f"{name}: true {{:.2f}} false {{:.2f}} runs {{:.2f}}".format(*ours.over(base)), base, ours, flush=True)
    played = [gated(World(), seed) for seed in seeds]
    print("apparent less true gain of a keep:", statistics.fmean(b for c in played for b in c.bias))
    claimed = [any(claims(World(), n, c.kept[-1:])) for n, c in enumerate(played) if c.best > 0]
    print("last keep, truly better than the baseline, confirmed:", statistics.fmean(claimed))
    for ideas in (24, 50, 100):
        print(ideas, pure_noise(ideas, seeds), flush=True)


if __name__ == "__main__":
    main()
