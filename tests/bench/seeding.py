"""How often the check of the seed is wrong: simulated baselines of three runs, as `core.statistics.seeding` tabulates.

python -m tests.bench.seeding [BASELINES]
"""

from __future__ import annotations

import math
import random
import sys
from dataclasses import dataclass

from autoresearch.core.statistics.seeding import Randomness, SeededRun, effect, from_the_start

SPREAD = 0.01  # between seeds, sd of one value
SEEDS = (0, 0, 1)
DRIFT = 18.0  # natural logarithms by which a difference grows over a run, from a millionth of the spread on


@dataclass(frozen=True, slots=True)
class World:
    """A trainer. `own`: its runs come from their seed, from one hidden seed, or from nowhere."""

    name: str
    own: str  # seed, hidden, none
    jitter: float = 0.0
    digits: int | None = None
    drifts: bool = False


WORLDS = (
    World("seeds itself, jitter 2e-5, six digits", "hidden", 2e-5, 6),
    World("seeds itself, jitter that grows to the full spread", "hidden", drifts=True),
    World("no seed at all, every run is another", "none"),
    World("repeats exactly, full precision", "seed"),
    World("repeats exactly, four digits", "seed", digits=4),
    World("repeats exactly, two digits", "seed", digits=2),
    World("repeats up to a jitter of 2e-5", "seed", 2e-5),
    World("repeats up to a jitter of 1e-3", "seed", 1e-3),
    World("runs of one seed drift apart to the full spread", "seed", drifts=True),
)


def called_random(world: World, values: int, memory: float, baselines: int) -> float:
    """The share of baselines of which the curves say that every run is a replicate."""
    chance = random.Random(f"{world.name} {values} {memory}")
    found = (from_the_start(_runs(world, values, memory, chance)) for _ in range(baselines))
    return sum(one is Randomness.RANDOM for one in found) / baselines


def rate(world: World, values: int, memory: float, baselines: int) -> float:
    """The share of baselines in which the check is wrong. memory: of a deviation, from one value to the next."""
    chance = random.Random(f"{world.name} {values} {memory}")
    seen = sum(_seen(world, values, memory, chance) for _ in range(baselines)) / baselines
    return 1 - seen if world.own == "seed" else seen


def _seen(world: World, values: int, memory: float, chance: random.Random) -> bool:
    found = effect(_runs(world, values, memory, chance))
    return found is not None and found.seen


def _runs(world: World, values: int, memory: float, chance: random.Random) -> list[SeededRun]:
    trained = {seed: _curve(values, memory, chance) for seed in SEEDS}
    runs = []
    for seed in SEEDS:
        fate = {"seed": trained[seed], "hidden": trained[0]}.get(world.own) or _curve(values, memory, chance)
        other, jitter = _curve(values, memory, chance), _curve(values, memory, chance)
        series = []
        for n in range(values):
            drift = min(1.0, 1e-6 * math.exp(DRIFT * (n + 1) / values)) if world.drifts else 0.0
            deviation = fate[n] * math.sqrt(1 - drift * drift) + other[n] * drift
            value = 0.2 + 0.3 * n / values + SPREAD * deviation + world.jitter * jitter[n]
            series.append((n, value if world.digits is None else round(value, world.digits)))
        runs.append(SeededRun(seed, series))
    return runs


def _curve(values: int, memory: float, chance: random.Random) -> list[float]:
    """Standard normal deviations, each with so much memory of the one before."""
    found = [chance.gauss(0, 1)]
    for _ in range(values - 1):
        found.append(memory * found[-1] + math.sqrt(1 - memory * memory) * chance.gauss(0, 1))
    return found


def main() -> None:
    """Print the table, in percent: wrong about the seed; and, of 10 and 50 values, called random."""
    baselines = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    for world in WORLDS:
        cells = [
            f"{100 * rate(world, values, 0.0, baselines):.1f} ({100 * rate(world, values, 0.9, baselines):.1f})"
            for values in (1, 10, 50)
        ]
        if world.own != "seed":
            cells += [
                f"{100 * called_random(world, values, 0.0, baselines):.1f} "
                f"({100 * called_random(world, values, 0.9, baselines):.1f})"
                for values in (10, 50)
            ]
        print(f"{world.name:52}", *(f"{cell:14}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
