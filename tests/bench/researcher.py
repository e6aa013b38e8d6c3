"""What a search finds at equal ideas, or equal runs: edited on the tip, or greedy on what is kept one by one.

    python -m tests.bench researcher [--ideas 6 12 24] [--campaigns 40] [--land mixed cliff ...] [--equal runs] [--json]

Driven by the product's own state, scheduler and decisions (`simulated`), on landscapes of edits with effects, conflicts
and interactions. What a real model's ideas are worth is not measured. It exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.state import Idea
from autoresearch.core.campaign.tip import good_edits, needs_merge
from autoresearch.core.controller import ablation
from autoresearch.core.controller.confirmation_rounds import owed_to_round
from autoresearch.core.controller.next_actions import next_request
from tests.bench.simulated import Simulation, World

SPOTS = 14  # places in the code; of two edits of one place the later replaces the earlier
POOL = 120
SIZES = {"small": 0.25, "big": 2.0, "bigspoil": 2.0, "overshoot": 2.0, "cliff": 2.5}  # half the mean gain, in sd
SPOILED = {"mixed": -0.7, "spoil": -2.5, "bigspoil": -2.5}  # what 30 % of pairs lose, in gains of the lesser edit
COLLAPSED = -5.0
AHEAD = 2  # ideas that are edited before the run of the one before has ended
GOALS = {  # by how much the first tip of pairs was better after 6, 12 and 24 ideas, in sd, in REFERENCE campaigns
    "mixed": (0.14, 0.31, 0.84),
    "big": (0.76, 1.63, 2.95),
    "spoil": (0.11, 0.37, 0.67),
    "bigspoil": (0.53, 0.86, 1.12),
}
REFERENCE = 400
FLOORS = {"overshoot": -0.15, "cliff": -0.15, "substitutes": 0.0}  # the same after any number of ideas
NOISE_KEPT = 0.1  # share of campaigns on pure noise that keep something, at most
BELOW = 0.5  # sd
MOST_BELOW = 0.05  # share of campaigns whose result is that far below the best single edit in it
COMPARED = ("kept", "below", "runs")
PROOF_RUNS = 4  # of equal runs: beyond what the chain takes, as the tip is proved at the end


class Landscape:
    """Edits with their effects, in sd of a run."""

    def __init__(self, kind: str, seed: int) -> None:
        rng = random.Random(f"{kind} {seed}")
        self.kind = kind
        self.spots = [rng.randrange(SPOTS) for _ in range(POOL)]
        drawn = [self._drawn(rng) for _ in range(POOL)]
        self.effects = [effect for effect, _ in drawn]
        self.broken = [broken for _, broken in drawn]
        self.pairs: dict[tuple[int, int], float] = {}
        good = [edit for edit in range(POOL) if self.effects[edit] > 0]
        for n, later in enumerate(good if kind in SPOILED else ()):
            for earlier in good[:n]:
                chance, least = rng.random(), min(self.effects[earlier], self.effects[later])
                if chance < 0.3:
                    self.pairs[earlier, later] = SPOILED[kind] * least
                elif chance < 0.36:
                    self.pairs[earlier, later] = 0.4 * least
        self.order = list(range(POOL))
        rng.shuffle(self.order)

    def _drawn(self, rng: random.Random) -> tuple[float, bool]:
        """The effect of one edit, and whether it does not run."""
        chance = rng.random()
        if self.kind == "cliff" and chance >= 0.72:
            chance = 0.0  # half of them gain
        size = SIZES.get(self.kind, 0.5)
        if self.kind == "null" or chance >= 0.54:
            return 0.0, False
        if chance < 0.44:
            effect = rng.gammavariate(2, size)
            return (effect if chance < 0.22 else -effect), False
        return 0.0, True

    def level(self, edits: frozenset[int]) -> float:
        """The true level of the code with these edits."""
        own = [self.effects[edit] for edit in edits]
        if self.kind == "substitutes":  # gains do not add
            gains = sorted((effect for effect in own if effect > 0), reverse=True)
            return sum(gains[:1]) + 0.15 * sum(gains[1:]) + sum(effect for effect in own if effect < 0)
        if self.kind in ("overshoot", "cliff"):  # the gains push one quantity (an effective step size): too much ruins
            up, down = sum(e for e in own if e > 0), sum(e for e in own if e < 0)
            if self.kind == "cliff":
                return (up if up <= 8 else COLLAPSED) + down
            return (up if up <= 6 else max(COLLAPSED, 12 - up)) + down
        return sum(own) + sum(add for (a, b), add in self.pairs.items() if a in edits and b in edits)


class Search(Simulation):
    """One campaign of an agent's ideas; `on`: of each idea, the edit that it replaces in its parent, if any."""

    def __init__(self, kind: str, search: str, ideas: int, seed: int, most: float = math.inf) -> None:
        super().__init__(World(ideas=ideas), seed)
        self.state.spec = replace(self.state.spec, search=search)
        self.land, self.most = Landscape(kind, seed), most
        self.code: dict[int, dict[int, int]] = {1: {}}  # by idea: spot -> the edit there
        self.edit: dict[int, tuple[int, int | None]] = {}  # by idea: its edit, and the one below
        self.ahead: list[tuple[Idea, int]] = []

    def search(self) -> float:
        """The true level of what is kept in the end."""
        self.note("idea", index=1, hypothesis=Hypothesis(BASELINE, "nothing").to_json(), commit="c")
        self.levels[1] = 0.0
        while self.outcome.runs < self.most:
            if self.state.seed_check is None and len(self.state.baseline.judged if self.state.baseline else ()) >= 3:
                self.checked()
            if needs_merge(self.state):
                self.merge()
            request = next_request(self.state, last=self.state.attempted > self.world.ideas and not self.ahead)
            if request is not None:
                self.make(request)
            elif self.state.attempted <= self.world.ideas:
                self.new_idea()
            else:
                break
        best = self.state.best
        return self.levels[best.index] if best else 0.0

    def end(self) -> Idea | None:
        """What wins: after the proof of the best idea, and of the smaller version that the ablation of a tip finds."""
        while True:
            if (ongoing := self.state.open_round) is not None:
                if (request := owed_to_round(self.state)) is not None:
                    self.make(request)
                elif ongoing.of:
                    self.note("confirmed_round", round=ongoing.number)
                else:
                    self.judge_round()
            elif found := ablation.due(self.state, math.inf):
                self.begin_ablation(*found)
            elif not self.begin_round():
                return self.state.winner

    def begin_ablation(self, tip: Idea, edits: list[Idea]) -> None:
        """What the product does with git: the tip without each of these, if the others fit without it."""
        versions = list[int]()
        for edit in edits:
            others = [one for one in map(self.state.by_slug, tip.hypothesis.merges) if one and one is not edit]
            code, merged = self.merged([one.index for one in others])
            if len(merged) == len(others):
                versions.append(self._merge(f"{tip.slug}-without-{edit.index}", code, merged))
        number = ablation.next_number(self.state)
        self.note("confirming", round=number, candidates=versions, sizes=[ablation.RUNS], of=tip.index)

    def new_idea(self) -> None:
        while len(self.ahead) <= AHEAD and self.state.attempted + len(self.ahead) <= self.world.ideas:
            base = self.state.base
            assert base is not None
            self.ahead.append((base, self.land.order.pop()))
        parent, edit = self.ahead.pop(0)
        index, spot = len(self.state.ideas) + 1, self.land.spots[edit]
        self.edit[index] = edit, self.code[parent.index].get(spot)
        hypothesis = Hypothesis(f"idea-{index}", "something", parent=parent.slug, proposer="agent")
        self._add(index, hypothesis, parent.slug, {**self.code[parent.index], spot: edit})

    def _add(self, index: int, hypothesis: Hypothesis, parent: str, code: dict[int, int]) -> None:
        self.code[index] = code
        self.levels[index] = self.land.level(frozenset(code.values()))
        self.note("idea", index=index, hypothesis=hypothesis.to_json(), parent=parent, commit="c")
        broken = not hypothesis.merges and self.land.broken[self.edit[index][0]]
        if broken:
            self.levels[index] = math.nan

    def merge(self) -> None:
        """What the product does with git."""
        asked = good_edits(self.state)
        code, merged = self.merged(asked)
        index = self._merge(f"tip-{len(self.state.ideas) + 1}", code, merged) if merged else 0
        self.note("tip", good_edits=list(asked), index=index, left=[i for i in asked if i not in merged])

    def merged(self, asked: Sequence[int]) -> tuple[dict[int, int], list[int]]:
        """The edits that fit, the best first, as often as one more fits."""
        code, merged = dict[int, int](), list[int]()
        while fitting := [i for i in asked if i not in merged and self._fits(i, code)]:
            code[self.land.spots[self.edit[fitting[0]][0]]] = self.edit[fitting[0]][0]
            merged.append(fitting[0])
        return code, merged

    def _merge(self, slug: str, code: dict[int, int], merged: Sequence[int]) -> int:
        """The idea that is this merge."""
        index = next((i for i in self.code if i in self._tips() and self.code[i] == code), 0)
        if not index:
            index = len(self.state.ideas) + 1
            slugs = tuple(self.state.ideas[i - 1].slug for i in merged)
            self._add(index, Hypothesis(slug, "all", parent=BASELINE, merges=slugs), BASELINE, code)
        return index

    def _tips(self) -> set[int]:
        return {idea.index for idea in self.state.ideas if idea.hypothesis.merges}

    def _fits(self, index: int, code: dict[int, int]) -> bool:
        edit, below = self.edit[index]
        return code.get(self.land.spots[edit]) == below


@dataclass(frozen=True)
class Found:
    """What one campaign came to."""

    level: float  # true, of what is kept, in sd of a run above the baseline
    runs: int
    kept: bool
    below: bool  # the best edit of what wins after its proof is better alone


def found(kind: str, search: str, ideas: int, most: float, seed: int) -> Found:
    """One campaign."""
    one = Search(kind, search, ideas, seed, most)
    level, kept = one.search(), one.state.best is not one.state.baseline
    runs, winner = one.outcome.runs, one.end()
    assert winner is not None
    alone = max((one.land.level(frozenset({edit})) for edit in one.code[winner.index].values()), default=0.0)
    return Found(level, runs, kept, alone - one.levels[winner.index] > BELOW)


def missed_goals(row: dict[str, Any]) -> list[str]:
    """What a row of the table should be and is not."""
    land, ideas, missed = row["land"], row["ideas"], []
    table = dict(zip((6, 12, 24), GOALS.get(land, ()), strict=False))
    goal, least = table.get(ideas), FLOORS.get(land)
    error = row["error"] * math.sqrt(1 + row["campaigns"] / REFERENCE)  # of the difference from the goal
    if goal is not None and row["gain"] + 2 * error < goal:
        missed.append(f"{row['gain']:+.2f}, goal {goal:+.2f} within two standard errors of {error:.2f}")
    if least is not None and row["gain"] < least:
        missed.append(f"{row['gain']:+.2f}, goal {least:+.2f}")
    if land == "null" and row["kept"][1] > NOISE_KEPT:
        missed.append(f"keeps something in {row['kept'][1]:.0%}, goal {NOISE_KEPT:.0%}")
    if row["below"][1] > MOST_BELOW:
        missed.append(f"{row['below'][1]:.0%} below their best edit, goal {MOST_BELOW:.0%}")
    return [f"{land}, {ideas} ideas: {one}" for one in missed]


def compared(chain: list[Found], tip: list[Found]) -> dict[str, Any]:
    """The means of both and of their differences, with the standard error: campaigns of one seed have equal ideas."""
    more = [b.level - a.level for a, b in zip(chain, tip, strict=True)]
    return {
        "chain": statistics.fmean(one.level for one in chain),
        "tip": statistics.fmean(one.level for one in tip),
        "gain": statistics.fmean(more),
        "campaigns": len(more),
        "error": statistics.stdev(more) / math.sqrt(len(more)),
        **{name: [statistics.fmean(getattr(o, name) for o in side) for side in (chain, tip)] for name in COMPARED},
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="tests.bench researcher")
    parser.add_argument("--ideas", type=int, nargs="+", default=[6, 12, 24])
    parser.add_argument("--campaigns", type=int, default=40)
    parser.add_argument("--land", nargs="+", default=[*GOALS, *FLOORS, "additive", "small", "null"])
    parser.add_argument("--equal", choices=["ideas", "runs"], default="ideas")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    missed, rows = list[str](), []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for kind in options.land:
            for ideas in options.ideas:
                seeds, most = range(options.campaigns), math.inf
                if options.equal == "runs":
                    free = pool.map(partial(found, kind, "chain", ideas, math.inf), seeds)
                    most = PROOF_RUNS + round(statistics.fmean(one.runs for one in free))
                pair = [list(pool.map(partial(found, kind, how, ideas, most), seeds)) for how in ("chain", "tip")]
                row = {"land": kind, "ideas": ideas, **compared(*pair)}
                rows.append(row)
                missed += missed_goals(row)
                if not options.json:
                    print(
                        f"{kind:12} {ideas:3} ideas: chain {row['chain']:5.2f}, tip {row['tip']:5.2f}, "
                        f"{row['gain']:+.2f} +- {row['error']:.2f}; keeps something {row['kept'][0]:.0%}, "
                        f"{row['kept'][1]:.0%}; below its best edit {row['below'][0]:.0%}, {row['below'][1]:.0%}; "
                        f"runs {row['runs'][0]:.0f}, {row['runs'][1]:.0f}",
                        flush=True,
                    )
    print(json.dumps(rows) if options.json else "\n".join(f"missed: {one}" for one in missed) or "all goals are met")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
