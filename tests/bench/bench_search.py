"""Search on the frozen landscape of tinygrpo: true score of the incumbent against ideas tried, and compute.

Twenty paired seeds: equal seeds have the same luck in the n-th run, whoever proposes it. The incumbent is what
a campaign would take for the best, the highest single measurement (the baseline is measured three times); its
true score is the mean of the landscape there, which the search never sees.

    python -m tests.bench.bench_search       prints the table of docs: every count, every proposer
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.space_file import read_space
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.pruning import Curve, HalvingRule, MedianRule, PruningRule, first_stop, replay
from autoresearch.proposers.registry import Given, proposer
from tests.bench.result import Result
from tests.bench.search_landscape import SPACE, START, STEPS, Landscape, load

SEEDS = range(20)
IDEAS = 24
COUNTS = range(12, IDEAS + 1)
OBJECTIVE = Objective("task_pass_rate@1")
MEDIAN = MedianRule(warmup=0, least=4)
HALVING = HalvingRule(warmup=0, eta=3)
"""Chosen, as the number of ideas at the start of TPE was, with other seeds than those measured here."""


@dataclass
class Search:
    """One simulated campaign: after each idea, the true score of the incumbent and the steps trained so far."""

    scores: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)  # whole ones, as if nothing had been ended

    def score_after(self, steps: int) -> float:
        """The incumbent's true score once so many steps were trained."""
        return [score for score, spent in zip(self.scores, self.steps, strict=True) if spent <= steps][-1]


def search(land: Landscape, name: str, seed: int, *, rule: PruningRule | None = None, ideas: int = IDEAS) -> Search:
    """Run a campaign of so many ideas, the baseline first."""
    found, shown = Search(), list[Curve]()
    first = [_curve(land, START, f"{seed}:0:{n}") for n in range(3)]
    value = statistics.fmean(curve[-1][1] for curve in first)
    attempts = [Attempt(1, Hypothesis(BASELINE, ""), "keep", value, 3)]
    best, incumbent, spent = value, dict[str, object](START), STEPS[-1]
    found.scores.append(land.score(incumbent))
    found.steps.append(spent)
    found.curves.append(first[0])
    shown.append(first[0])
    with tempfile.TemporaryDirectory() as folder:
        given = Given(Path(folder), OBJECTIVE, _no_yaml, space=read_space(SPACE), baseline=START, seed=seed)
        source = proposer(name, given)
        while len(attempts) < ideas and (idea := source.ask(attempts)) is not None:
            curve = _curve(land, idea.overrides, f"{seed}:{len(attempts)}")
            length, stop = (len(curve), None) if rule is None else first_stop(rule, curve, shown, OBJECTIVE)
            shown.append(curve[:length])
            value, spent = curve[length - 1][1], spent + curve[length - 1][0]
            if stop is None and value > best:
                best, incumbent = value, dict(idea.overrides)
            attempts.append(Attempt(len(attempts) + 1, idea, "discard" if stop else "keep", value, 1))
            source.tell(attempts[-1])
            found.scores.append(land.score(incumbent))
            found.steps.append(spent)
            found.curves.append(curve)
    return found


def run(repeats: int) -> Iterator[Result]:
    """The goals of the search; seeds are fixed, so `repeats` changes nothing."""
    land = load()
    with _without_fsync():
        chance = [search(land, "random", seed) for seed in SEEDS]
        tpe = [search(land, "tpe", seed) for seed in SEEDS]
        stopped = {
            rule: [search(land, "tpe", seed, rule=rule, ideas=3 * IDEAS) for seed in SEEDS]
            for rule in (MEDIAN, HALVING)
        }
    note = f"landscape from {land.score(START):.3f} at the start to {land.best:.3f}, noise of one run {land.noise:.3f}"
    yield Result(
        f"true score of the incumbent at 12 to {IDEAS} ideas, TPE",
        "random",
        [mean_at(tpe, n) for n in COUNTS],
        [mean_at(chance, n) for n in COUNTS],
        1.0,
        unit="pass@1",
        at_least=True,
        worst=True,
        note=f"mean of 20 paired seeds; {note}",
    )
    full = IDEAS * STEPS[-1]
    for rule, searches in stopped.items():
        yield Result(
            f"steps until the score of {IDEAS} whole TPE ideas, with early stopping ({type(rule).__name__})",
            "TPE without",
            [steps_to(searches, mean_at(tpe, IDEAS), full)],
            [full],
            0.5,
            unit="steps",
            note="mean of 20 seeds",
        )


def mean_at(searches: list[Search], ideas: int) -> float:
    """The mean over the seeds after so many ideas."""
    return statistics.fmean(s.scores[ideas - 1] for s in searches)


def steps_to(searches: list[Search], score: float, most: int) -> int:
    """Steps after which the mean over the seeds is at least that score; twice `most` where it never is."""
    for steps in range(STEPS[-1], most + 1, STEPS[0]):
        if statistics.fmean(s.score_after(steps) for s in searches) >= score:
            return steps
    return 2 * most


def table() -> None:
    """Every count and every proposer, as markdown."""
    land = load()
    print(f"start {land.score(START):.3f}, best {land.best:.3f}, noise of one run {land.noise:.3f}", file=sys.stderr)
    with _without_fsync():
        chance = [search(land, "random", seed) for seed in SEEDS]
        tpe = [search(land, "tpe", seed) for seed in SEEDS]
        rules = {"median": MEDIAN, "halving": HALVING}
        stopped = {n: [search(land, "tpe", s, rule=r, ideas=3 * IDEAS) for s in SEEDS] for n, r in rules.items()}
    print("| ideas | random | TPE | TPE better, equal, worse (of 20) |", *(f"TPE + {n}, same steps |" for n in stopped))
    print("|---" * (4 + len(stopped)) + "|")
    for count in range(2, IDEAS + 1):
        signs = [_sign(t.scores[count - 1] - c.scores[count - 1]) for t, c in zip(tpe, chance, strict=True)]
        pairs = ", ".join(str(signs.count(sign)) for sign in (1, 0, -1))
        steps = [statistics.fmean(s.score_after(count * STEPS[-1]) for s in found) for found in stopped.values()]
        cells = [str(count), f"{mean_at(chance, count):.4f}", f"{mean_at(tpe, count):.4f}", pairs]
        print("| " + " | ".join([*cells, *(f"{score:.4f}" for score in steps)]) + " |")
    for name, rule in rules.items():
        replays = [replay(rule, s.curves, OBJECTIVE) for s in (*chance, *tpe)]
        kills, saved = sum(r.kills_winner for r in replays), statistics.fmean(r.saved for r in replays)
        print(f"{name}: replay on 40 campaigns kills the winner in {kills}, saves {saved:.0%}", file=sys.stderr)


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _curve(land: Landscape, point: Mapping[str, object], luck: str) -> list[tuple[int, float]]:
    return list(zip(STEPS, land.run(point, random.Random(luck)), strict=True))


def _no_yaml(data: bytes, name: str) -> object:
    raise NotImplementedError


@contextmanager
def _without_fsync() -> Iterator[None]:
    """The disk is no part of what is measured here."""
    real, os.fsync = os.fsync, lambda _: None
    try:
        yield
    finally:
        os.fsync = real


if __name__ == "__main__":
    table()
