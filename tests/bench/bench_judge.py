"""What the judge finds and claims, in simulated campaigns: ours, and the greedy ratchet of single runs.

    python -m tests.bench judge [--ideas 24] [--campaigns 400] [--noise normal] [--effect 2] [--json]
    python -m tests.bench judge --prove        the level and the power of one proof, by the runs that it may take
    python -m tests.bench judge --all          every noise, and the numbers of docs/judge.md

`simulated` says how: the product's own state, scheduler, decisions and rounds, with drawn results. Both get the same
ideas, and the same numbers are printed every time, on however many processes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from tests.bench.result import Result
from tests.bench.simulated import SAME_IDEAS, Outcome, World, campaign, greedy, proof

SEED = 1_000_000  # none of these campaigns was used to choose the rule
CAMPAIGNS = 400
GREEDY = 10  # times each of the greedy ratchet, by whose numbers all others are divided
WORLDS: Mapping[str, World] = {
    "normal": World(),
    "t3": World(noise="t3"),
    "skewed up": World(noise="skewed up"),
    "skewed down": World(noise="skewed down"),
    "collapsing": World(noise="collapsing"),
    "noisy ideas": World(spread=3.0),
    "correlated": World(noise="correlated"),
    "drift": World(drift=1.5),
    "nothing seeds it": World(seeding="fresh"),
    "most ideas are better": World(share=0.8, apart=True),
}
EMPTY: Mapping[str, World] = {
    "no idea works": World(share=0.0),
    "and t3": World(share=0.0, noise="t3"),
    "and skewed up": World(share=0.0, noise="skewed up"),
    "and skewed down": World(share=0.0, noise="skewed down"),
    "and it is accuracy on 200 questions": World(share=0.0, noise="accuracy"),
    "and 15 % collapse": World(share=0.0, noise="collapsing"),
    "and ideas are 3 times as noisy": World(share=0.0, spread=3.0),
    "and noise is correlated": World(share=0.0, noise="correlated"),
    "and results drift": World(share=0.0, drift=1.5),
    "and nothing seeds it": World(share=0.0, seeding="fresh"),
    "and a seed is common to all ideas": World(share=0.0, common=0.95),
    "and a constant seeds it": World(share=0.0, seeding="constant"),
    "and ideas lose the worst 10 % of their runs": World(share=0.0, diverging=0.1),
    "and ideas lose the worst 20 %": World(share=0.0, diverging=0.2),
    "and ideas lose the worst 40 %": World(share=0.0, diverging=0.4),
}
LOST: Mapping[str, World] = {
    "the machine ends 30 % of all runs": World(lost=0.3),
    "30 % of all runs fail by their own fault": World(failing=0.3),
}
EFFECTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
BUDGETS = (8, 16, 40, 80)


@dataclass(frozen=True)
class Summary:
    """Means over campaigns, and what they are divided by the greedy ratchet's."""

    campaigns: int
    true: float  # ideas kept that are better than what they replaced, as a share of greedy's
    true_error: float  # standard error; the ideas are the same
    false: float  # ideas kept that are not, as a share of greedy's
    false_keeps: float  # the same, per campaign
    runs: float  # all runs, as a multiple of greedy's
    runs_by_candidates: tuple[float | None, ...]  # where none, one, two ideas were put to the proof
    false_claims: float  # percent of the campaigns
    confirmed: float | None  # percent of the truly better ideas put to the proof
    best: float  # true level of the last incumbent, in sd
    reopened: float  # runs of ideas that had been discarded
    excess: float | None  # gain shown for a confirmed idea, less its true one, in sd
    coverage: float | None  # percent of the intervals that hold the true gain
    fallen: float | None  # percent of the ideas with two runs or more of which a run is called collapsed


def summary(played_seeds: Sequence[Sequence[Outcome]], ratchet: Sequence[Sequence[Outcome]], ideas: int) -> Summary:
    """What campaigns came to, several of each seed; `ratchet`: what the greedy ratchet makes of the same ideas."""
    mean = statistics.fmean
    outcomes = [one for some in played_seeds for one in some]
    over = [mean(getattr(one, name) for some in ratchet for one in some) for name in ("true", "false")]
    share = mean(one.true for one in outcomes) / (over[0] or math.inf)
    true, theirs = ([mean(one.true for one in some) for some in side] for side in (played_seeds, ratchet))
    apart = [a - share * b for a, b in zip(true, theirs, strict=True)]
    by = [[one for one in outcomes if one.rounds == n] for n in range(3)]
    better = [level > 0 for one in outcomes for level in one.tested]
    sure = sum(level > 0 for one in outcomes for level in one.claimed)
    excess = [x for one in outcomes for x in one.excess]
    covered = [x for one in outcomes for x in one.covered]
    several = sum(one.several for one in outcomes)
    error = statistics.pstdev(apart) / math.sqrt(len(apart))
    return Summary(
        campaigns=len(outcomes),
        true=share,
        true_error=error / (over[0] or math.inf),
        false=mean(one.false for one in outcomes) / (over[1] or math.inf),
        false_keeps=mean(one.false for one in outcomes),
        runs=mean(one.runs + one.fresh for one in outcomes) / (ideas + 1),
        runs_by_candidates=tuple(mean(c.runs + c.fresh for c in some) / (ideas + 1) if some else None for some in by),
        false_claims=100 * mean(one.false_claim for one in outcomes),
        confirmed=100 * sure / sum(better) if any(better) else None,
        best=mean(one.best for one in outcomes),
        reopened=mean(one.reopened for one in outcomes),
        excess=mean(excess) if excess else None,
        coverage=100 * mean(covered) if covered else None,
        fallen=100 * sum(one.fallen for one in outcomes) / several if several else None,
    )


def played(
    play: Callable[[World, int], Outcome], world: World, campaigns: int, pool: ProcessPoolExecutor, times: int = 1
) -> list[list[Outcome]]:
    """So many campaigns, each of them several times with the same ideas and other noise."""
    seeds = [seed + n * SAME_IDEAS for seed in range(SEED, SEED + campaigns) for n in range(times)]
    found = list(pool.map(partial(play, world), seeds, chunksize=max(1, len(seeds) // 40)))
    return [found[at : at + times] for at in range(0, len(found), times)]


def compared(world: World, campaigns: int, pool: ProcessPoolExecutor) -> dict[str, Summary]:
    """Both on one world."""
    ratchet = played(greedy, world, campaigns, pool, GREEDY)
    return {
        "ours": summary(played(campaign, world, campaigns, pool), ratchet, world.ideas),
        "greedy": summary(ratchet, ratchet, world.ideas),
    }


HEAD = (
    f"{'':46} {'true':>11} {'false':>6} {'(each)':>7} {'runs':>5} {'none, one, two':>15} {'false claims':>13} "
    f"{'confirmed':>10} {'excess':>7} {'covered':>8} {'collapsed':>10}"
)


@dataclass(frozen=True)
class Proofs:
    """Many confirmations of ideas with the same true gain, in sd."""

    claimed: float  # percent
    runs: float  # fresh ones of both sides, on average
    excess: float  # of the gain shown, less the true one, over all
    excess_claimed: float | None  # over those that are claimed
    plain: float | None  # the same of the plain difference of the means
    covered: float  # percent of the intervals that hold the true gain


def proofs(effect: float, budget: int, number: int, pool: ProcessPoolExecutor) -> Proofs:
    """So many of them."""
    found = list(pool.map(partial(proof, effect, budget=budget), range(SEED, SEED + number), chunksize=20))
    sure = [one for one in found if one.claimed]
    mean = statistics.fmean
    return Proofs(
        100 * len(sure) / number,
        mean(one.runs for one in found),
        mean(one.gain for one in found) - effect,
        mean(one.gain for one in sure) - effect if sure else None,
        mean(one.delta for one in sure) - effect if sure else None,
        100 * mean(one.covered for one in found),
    )


def line(name: str, found: Summary) -> str:
    """One row of the table."""

    def maybe(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    by = " ".join(maybe(value, ".2f") for value in found.runs_by_candidates)
    return (
        f"{name:46} {found.true:>5.2f}+-{found.true_error:.2f} {found.false:>6.2f} {found.false_keeps:>7.2f} "
        f"{found.runs:>5.2f} {by:>15} {found.false_claims:>11.1f} % {maybe(found.confirmed, '.0f'):>8} % "
        f"{maybe(found.excess, '+.2f'):>7} {maybe(found.coverage, '.0f'):>6} % {maybe(found.fallen, '.1f'):>8} %"
    )


def tables(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Work out what is asked for, printing each row as it comes."""
    first = "no idea works"
    worlds = {arguments.noise: WORLDS[arguments.noise], first: EMPTY[first]}
    worlds = {**WORLDS, **LOST, **EMPTY} if arguments.all else {} if arguments.prove else worlds
    found: dict[str, dict[str, Any]] = {}

    def show(words: str) -> None:
        if not arguments.json:
            print(words, flush=True)

    with ProcessPoolExecutor(os.cpu_count()) as pool:
        if worlds:
            words = f"{arguments.ideas} ideas, one in ten better by {arguments.effect:g} sd"
            show(f"{words}; {arguments.campaigns} campaigns\n{HEAD}")
        for name, world in worlds.items():
            world = replace(world, ideas=arguments.ideas, effect=arguments.effect)
            found[name] = compared(world, arguments.campaigns, pool)
            for rule, one in found[name].items():
                show(line(f"{name}, {rule}", one))
        for budget in BUDGETS if arguments.all or arguments.prove else ():
            show(f"one proof in at most {budget} fresh runs: true gain, claimed, runs, excess, where claimed, covered")
            of = found[f"{budget} fresh runs"] = {}
            for effect in EFFECTS:
                one = of[f"{effect:g}"] = proofs(effect, budget, 5 * arguments.campaigns, pool)
                three = one.excess, one.excess_claimed, one.plain
                excess = " ".join("-" if x is None else f"{x:+.2f}" for x in three)
                show(f"{effect:4g} sd {one.claimed:6.1f} % {one.runs:5.1f} {excess} {one.covered:6.1f} %")
    return found


def main(argv: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench judge", description=__doc__.splitlines()[0])
    parser.add_argument("--ideas", type=int, default=24)
    parser.add_argument("--campaigns", type=int, default=CAMPAIGNS)
    parser.add_argument("--noise", choices=list(WORLDS), default="normal")
    parser.add_argument("--effect", type=float, default=2.0, help="of an idea that works, in sd of a run")
    parser.add_argument("--all", action="store_true", help="every noise, and what docs/judge.md quotes")
    parser.add_argument("--prove", action="store_true", help="the level and the power of one proof, by its runs")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    began = time.monotonic()
    found = tables(arguments)
    if arguments.json:
        print(json.dumps({name: {rule: asdict(one) for rule, one in rules.items()} for name, rules in found.items()}))
    else:
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


def run(repeats: int = 5) -> Iterable[Result]:
    """The headline, for `make bench`."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = compared(World(), 30 * max(repeats, 1), pool)
        empty = compared(World(share=0.0), 30 * max(repeats, 1), pool)["ours"]
    ours = found["ours"]
    what = "24 ideas, one in ten better by 2 sd"
    made = f"{ours.campaigns} simulated campaigns"
    for of, ratio, goal, reached, at_least in (
        ("true finds", ours.true, 0.9, 0.94, True),
        ("false keeps", ours.false, 0.1, 0.083, False),
        ("runs, nothing to confirm", ours.runs_by_candidates[0], 1.6, 1.42, False),
        ("runs, one candidate", ours.runs_by_candidates[1], 1.8, 2.17, False),
    ):
        yield Result(
            f"{what}: {of}", "the greedy ratchet", [ratio or 0.0], [1.0], goal,
            unit="", at_least=at_least, note=made, reached=reached,
        )  # fmt: skip
    none = "24 ideas of which none works: campaigns that claim one"
    yield Result(none, "", [empty.false_claims], [], 5, unit="%", worst=True, reached=1.5)
