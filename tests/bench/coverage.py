"""Do the intervals that are printed of a change hold what it is worth? In simulated campaigns whose ideas run once.

    python -m tests.bench coverage [--campaigns 300] [--json]

Ideas are edited on the baseline or on one another, with the product's own state, scheduler, decisions and tip. One
planned run of the baseline repeats a seed, and is left out. Exits with 1 where fewer than LEAST percent are held.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.tip import change_by
from autoresearch.core.controller.runs_and_retries import RunRequest
from tests.bench.simulated import Simulation, World

LEAST = 85.0
BASELINES, GAINS = (4, 6), (1.0, 10.0)  # planned runs, and what an idea changes, in sd of a run
WORLDS: Mapping[str, World] = {
    "normal": World(),
    "t3": World(noise="t3"),
    "one seed common to all ideas": World(common=0.9),
    "variance differs by idea": World(spread=0.0),
    "ties": World(noise="rounded"),
}


class Shown(Simulation):
    """One campaign; `spread` 0: each idea has a variance of its own."""

    def __init__(self, world: World, gain: float, seed: int) -> None:
        super().__init__(world, seed)
        self.state.spec = replace(self.state.spec, search="tip")
        self.ideas = random.Random(f"shown {seed}")
        self.effects = [gain * self.ideas.choice((-1.0, 0.0, 1.0)) for _ in range(world.ideas)]

    def checked(self) -> None:
        """The seed works: the second run of the baseline is a copy of the first."""
        self.note("seed_check", seen=True, reason="", by="", runs=3, values=9, exact=False, copies=["1-2"])

    def new_idea(self) -> None:
        index, parent = len(self.state.ideas) + 1, self.ideas.choice(self.state.ideas)
        self.levels[index] = self.levels[parent.index] + self.effects[index - 2]
        hypothesis = Hypothesis(f"idea-{index}", "something", parent=parent.slug, proposer="queue")
        self.note("idea", index=index, hypothesis=hypothesis.to_json(), parent=parent.slug, commit="c")

    def make(self, request: RunRequest) -> None:
        own = math.exp(random.Random(f"{self.seed} {request.idea.index}").gauss(0, 0.35))
        self.draw.world = replace(self.world, spread=self.world.spread or own)
        super().make(request)

    def shown(self) -> list[tuple[bool, float]]:
        """Of each change that has an interval: whether that holds the truth, and half its width in sd of a run."""
        self.play()
        changes = [(change_by(self.state, idea), self.effects[idea.index - 2]) for idea in self.state.ideas[1:]]
        return [(one[1] <= true <= one[2], (one[2] - one[1]) / 2) for one, true in changes if one]


def of_campaign(world: World, gain: float, seed: int) -> list[tuple[bool, float]]:
    """What one campaign shows."""
    return Shown(world, gain, seed).shown()


def main(argv: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    found = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, world in WORLDS.items():
            for baseline in BASELINES:
                for gain in GAINS:
                    play = partial(of_campaign, replace(world, baseline=baseline, ideas=8), gain)
                    shown = [one for some in pool.map(play, range(given.campaigns), chunksize=10) for one in some]
                    covered = 100 * statistics.fmean(held for held, _ in shown)
                    half = statistics.median(width for _, width in shown)
                    found.append({"world": name, "baseline": baseline, "gain": gain, "covered": covered, "half": half})
                    words = f"{name}, {baseline} runs of the baseline, {gain:g} sd"
                    missed = "" if covered >= LEAST else f"  missed: {LEAST:g} %"
                    if not given.json:
                        print(f"{words:62} {covered:5.1f} % of 90 %, +- {half:.1f} sd{missed}", flush=True)
    if given.json:
        print(json.dumps(found))
    return int(any(one["covered"] < LEAST for one in found))
