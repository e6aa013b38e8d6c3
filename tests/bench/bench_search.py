"""Search on the landscape of the embedded trainer: true score of the incumbent against ideas tried, and compute.

Paired seeds: equal seeds have the same luck in the n-th run, whoever proposes it. The incumbent is what a campaign
would take for the best, the highest single measurement (the baseline is measured three times); its true score is
that of the landscape there, which the search never sees.

    python -m tests.bench.bench_search            prints the table of early stopping in docs/search.md
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.space import read_space
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.pruning import PRUNED, Curve, MedianRule
from autoresearch.proposers.registry import ProposerInputs, proposer
from tests.bench import search_landscape
from tests.bench.replay import first_stop, replay
from tests.bench.result import Result
from tests.bench.search_landscape import Landscape

SEEDS = range(100)
STOPPING = range(40)
"""Seeds of the searches with early stopping, which are three times as long."""
IDEAS = 24
COUNTS = range(12, IDEAS + 1)
OBJECTIVE = Objective("score")
MEDIAN = MedianRule(warmup=0, least=4)
"""Chosen with the seeds 100 to 139."""


@dataclass
class Search:
    """One simulated campaign: after each idea, the true score of the incumbent and the steps trained so far."""

    scores: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)  # whole ones, as if nothing had been ended

    def score_after(self, steps: int) -> float:
        """The incumbent's true score once so many steps were trained."""
        return [score for score, spent in zip(self.scores, self.steps, strict=True) if spent <= steps][-1]


def search(land: Landscape, name: str, seed: int, *, rule: MedianRule | None = None, ideas: int = IDEAS) -> Search:
    """Run a campaign of so many ideas, the baseline first."""
    found, shown = Search(), list[Curve]()
    first = [_curve(land, land.start, f"{seed}:0:{n}") for n in range(3)]
    value = statistics.fmean(curve[-1][1] for curve in first)
    attempts = [Attempt(1, Hypothesis(BASELINE, ""), "keep", value, 3)]
    best, incumbent, spent = value, dict[str, object](land.start), land.steps[-1]
    found.scores.append(land.score(incumbent))
    found.steps.append(spent)
    found.curves.append(first[0])
    shown.append(first[0])
    given = ProposerInputs(OBJECTIVE, _no_yaml, space=read_space(land.space), baseline=land.start, seed=seed)
    source = proposer(name, given)
    while len(attempts) < ideas and (idea := source.ask(attempts)) is not None:
        curve = _curve(land, idea.overrides, f"{seed}:{len(attempts)}")
        length, stop = (len(curve), None) if rule is None else first_stop(rule, curve, shown, OBJECTIVE)
        shown.append(curve[:length])
        value, spent = curve[length - 1][1], spent + curve[length - 1][0]
        if stop is None and value > best:
            best, incumbent = value, dict(idea.overrides)
        attempts.append(Attempt(len(attempts) + 1, idea, PRUNED if stop else "keep", value, 1))
        source.tell(attempts[-1])
        found.scores.append(land.score(incumbent))
        found.steps.append(spent)
        found.curves.append(curve)
    return found


def run(repeats: int) -> Iterator[Result]:
    """The goals of the search; seeds are fixed, so `repeats` changes nothing."""
    land = search_landscape.load()
    chance, tpe = _searches(land, "random", SEEDS), _searches(land, "tpe", SEEDS)
    low, high = reached_range(tpe, chance)
    at = "; ".join(f"at {n} random {_shown(chance, n)}, TPE {_shown(tpe, n)}" for n in (12, IDEAS))
    yield Result(
        f"idea at which TPE reaches the true score of {IDEAS} random ideas",
        "random",
        [reached(tpe, mean_at(chance, IDEAS))],
        [IDEAS],
        16,
        unit="ideas",
        absolute=True,
        note=f"90 % of resamplings of the {len(SEEDS)} seeds {low:g} to {high:g}; {at} (± standard error)",
        reached=14,
    )
    ends = f"from {land.score(land.start):.3f} at the start to {land.best:.3f}"
    yield Result(
        f"true score of the incumbent at 12 to {IDEAS} ideas, TPE",
        "random",
        [mean_at(tpe, n) for n in COUNTS],
        [mean_at(chance, n) for n in COUNTS],
        1.0,
        unit="pass@1",
        at_least=True,
        worst=True,
        note=f"mean of {len(SEEDS)} paired seeds; landscape {ends}, noise of one run {land.noise:.3f}",
        reached=1.05,
    )
    full, whole = IDEAS * land.steps[-1], [tpe[seed] for seed in STOPPING]
    stopped = _searches(land, "tpe", STOPPING, rule=MEDIAN, ideas=3 * IDEAS)
    yield Result(
        f"steps until the score of {IDEAS} whole TPE ideas, with early stopping ({type(MEDIAN).__name__})",
        "TPE without",
        [steps_to(stopped, mean_at(whole, IDEAS), full, land.steps)],
        [full],
        0.5,
        unit="steps",
        note=f"mean of {len(STOPPING)} seeds",
    )


def _searches(
    land: Landscape, name: str, seeds: Sequence[int], *, rule: MedianRule | None = None, ideas: int = IDEAS
) -> list[Search]:
    return [search(land, name, seed, rule=rule, ideas=ideas) for seed in seeds]


def mean_at(searches: Sequence[Search], ideas: int) -> float:
    """The mean over the seeds after so many ideas."""
    return statistics.fmean(s.scores[ideas - 1] for s in searches)


def _shown(searches: Sequence[Search], ideas: int) -> str:
    """The mean and its standard error."""
    error = statistics.stdev(s.scores[ideas - 1] for s in searches) / math.sqrt(len(searches))
    return f"{mean_at(searches, ideas):.4f} ± {error:.4f}"


def reached(searches: Sequence[Search], score: float) -> float:
    """The first count of ideas at which the mean over the seeds is at least that score; infinity if there is none."""
    return next((n for n in range(1, IDEAS + 1) if mean_at(searches, n) >= score), math.inf)


def reached_range(searches: Sequence[Search], others: Sequence[Search], times: int = 200) -> tuple[float, float]:
    """5th and 95th percentile of `reached` for the others' last score, over pairs drawn again (bootstrap)."""
    chance, counts, pairs = random.Random(0), list[float](), list(zip(searches, others, strict=True))
    for _ in range(times):
        ours, theirs = zip(*chance.choices(pairs, k=len(pairs)), strict=True)
        counts.append(reached(ours, mean_at(theirs, IDEAS)))
    counts.sort()
    return counts[times // 20], counts[-1 - times // 20]


def steps_to(searches: list[Search], score: float, most: int, at: Sequence[int]) -> int:
    """Steps after which the mean over the seeds is at least that score; twice `most` where it never is."""
    for steps in range(at[-1], most + 1, at[0]):
        if statistics.fmean(s.score_after(steps) for s in searches) >= score:
            return steps
    return 2 * most


def table() -> None:
    """Early stopping on tinygrpo's table, as markdown; how often it ends the winner on standard error."""
    land = search_landscape.load()
    chance, whole = _searches(land, "random", STOPPING), _searches(land, "tpe", STOPPING)
    stopped = _searches(land, "tpe", STOPPING, rule=MEDIAN, ideas=3 * IDEAS)
    print("| ideas | TPE | TPE + median, same steps |\n|---|---|---|")
    for count in range(4, IDEAS + 1, 4):
        same = statistics.fmean(s.score_after(count * land.steps[-1]) for s in stopped)
        print(f"| {count} | {mean_at(whole, count):.4f} | {same:.4f} |")
    replays = [replay(MEDIAN, s.curves, OBJECTIVE) for s in (*chance, *whole)]
    kills, saved = sum(r.kills_winner for r in replays), statistics.fmean(r.saved for r in replays)
    print(f"replay on {len(replays)} campaigns kills the winner in {kills}, saves {saved:.0%}", file=sys.stderr)


def _curve(land: Landscape, point: Mapping[str, object], luck: str) -> list[tuple[int, float]]:
    return list(zip(land.steps, land.run(point, random.Random(luck)), strict=True))


def _no_yaml(data: bytes, name: str) -> object:
    raise NotImplementedError


if __name__ == "__main__":
    table()
