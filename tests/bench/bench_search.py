"""Search on the landscape of the embedded trainer: true score of the incumbent against ideas tried, and compute.

Paired seeds: equal seeds have the same luck in the n-th run, whoever proposes it. The incumbent is what a campaign
would take for the best, the highest single measurement (the baseline is measured three times); its true score is
that of the landscape there, which the search never sees.

    python -m tests.bench.bench_search            prints the table of `screen` in docs/search.md
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from unittest import mock

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.proposer import Attempt, ProposerInputs
from autoresearch.core.campaign.space import read_space
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics import effects
from autoresearch.core.statistics.screening import Curve, behind
from autoresearch.proposers.registry import proposer
from tests.bench import search_landscape
from tests.bench.result import Result
from tests.bench.search_landscape import Landscape

SEEDS = range(100)
SCREENED = range(40)
"""Seeds of the searches whose runs are screened."""
IDEAS = 24
COUNTS = range(12, IDEAS + 1)
OBJECTIVE = Objective("score")
REPLICATES = 5
GAIN_SD = 1.0  # in the noise of one run: by more than this an idea is truly better than the baseline
FITTED = 300


@dataclass
class Search:
    """One simulated campaign: the true score of the incumbent after each idea; of each idea its curve and its worth."""

    scores: list[float] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    gains: list[bool] = field(default_factory=list)  # whether it is truly better than the baseline


@dataclass
class Screened:
    """What `screen` after so many steps would have done to the ideas of some campaigns."""

    saved: float  # share of all steps of the ideas
    lost: float  # share of the ideas that are truly better, and got no whole run
    winners: int  # campaigns whose highest single measurement would not have been made


def search(land: Landscape, name: str, seed: int) -> Search:
    """Run a campaign of IDEAS ideas, the baseline first."""
    found = Search()
    first = [_curve(land, land.start, f"{seed}:0:{n}") for n in range(3)]
    value = statistics.fmean(curve[-1][1] for curve in first)
    attempts = [Attempt(1, Hypothesis(BASELINE, ""), "keep", value, 3)]
    best, incumbent = value, dict[str, object](land.start)
    found.scores.append(land.score(incumbent))
    given = ProposerInputs(OBJECTIVE, _no_yaml, space=read_space(land.space), baseline=land.start, seed=seed)
    source = proposer(name, given)
    while len(attempts) < IDEAS and (idea := source.ask(attempts)) is not None:
        curve = _curve(land, idea.overrides, f"{seed}:{len(attempts)}")
        value = curve[-1][1]
        if value > best:
            best, incumbent = value, dict(idea.overrides)
        attempts.append(Attempt(len(attempts) + 1, idea, "keep", value, 1))
        found.scores.append(land.score(incumbent))
        found.curves.append(curve)
        found.gains.append(land.score(idea.overrides) > land.score(land.start) + GAIN_SD * land.noise)
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
    half = screened(land, _searches(land, "tpe", SCREENED), land.steps[-1] // 2)
    yield Result(
        "share of the steps of TPE's ideas that `screen` at half of a run saves",
        "every idea runs whole",
        [half.saved],
        [1.0],
        0.1,
        unit="of the steps",
        absolute=True,
        at_least=True,
        note=f"{half.lost:.1%} of the true gains are screened, and the winner in {half.winners} of {len(SCREENED)}",
    )
    both = {many: [_fit_ms(many) for _ in range(repeats + 1)][1:] for many in (effects.MANY, sys.maxsize)}
    what = f"fit of a tip after {FITTED} ideas"
    yield Result(what, "without numpy", both[effects.MANY], both[sys.maxsize], 100.0, absolute=True)


def _fit_ms(many: int) -> float:
    """Of edits most of which are tried on a tip of their own, and two in five of which join it and leave it again."""
    chance, tip, groups = random.Random(0), list[int](), list[tuple[frozenset[effects.Term], float, int]]()
    for edit in range(FITTED):
        apart = ((one, one + 1) for one in tip if one + 1 in tip)  # edited before the run of the one before had ended
        groups.append((frozenset([*((one,) for one in (*tip, edit)), *apart]), chance.gauss(0, 1), 1))
        tip += [edit] if chance.random() < 0.4 else []
        tip.remove(chance.choice(tip)) if len(tip) > edit // 6 + 1 else None
    effects.fitted.cache_clear()
    with mock.patch.object(effects, "MANY", many):
        began = time.perf_counter()
        effects.fitted(tuple(groups))
    return 1000 * (time.perf_counter() - began)


def _searches(land: Landscape, name: str, seeds: Sequence[int]) -> list[Search]:
    return [search(land, name, seed) for seed in seeds]


def screened(land: Landscape, searches: Sequence[Search], after: int) -> Screened:
    """Look at each idea after so many steps, as a campaign would, beside runs of the baseline of its own."""
    saved = steps = gains = lost = winners = 0
    for seed, one in zip(SCREENED, searches, strict=True):
        baseline = [_curve(land, land.start, f"{seed}:baseline:{n}") for n in range(REPLICATES)]
        lasts = [curve[-1][1] for curve in one.curves]
        for curve, is_gain, last in zip(one.curves, one.gains, lasts, strict=True):
            ended = bool(behind([point for point in curve if point[0] <= after], baseline, OBJECTIVE))
            steps, saved = steps + curve[-1][0], saved + ended * (curve[-1][0] - after)
            gains, lost = gains + is_gain, lost + (is_gain and ended)
            winners += ended and last == max(lasts)
    return Screened(saved / steps, lost / gains, winners)


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


def table() -> None:
    """`screen` on tinygrpo's table, as markdown."""
    land = search_landscape.load()
    print("| ideas by | screened after | steps saved | true gains screened | campaigns whose winner is screened |")
    print("|---|---:|---:|---:|---:|")
    for name in ("random", "tpe"):
        searches = _searches(land, name, SCREENED)
        for after in land.steps[1:-1:2]:
            one = screened(land, searches, after)
            print(f"| {name} | {after} of {land.steps[-1]} | {one.saved:.0%} | {one.lost:.1%} | {one.winners} |")


def _curve(land: Landscape, point: Mapping[str, object], luck: str) -> list[tuple[int, float]]:
    return list(zip(land.steps, land.run(point, random.Random(luck)), strict=True))


def _no_yaml(data: bytes, name: str) -> object:
    raise NotImplementedError


if __name__ == "__main__":
    table()
