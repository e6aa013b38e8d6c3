"""Sweeps: every point of a grid in order, or points at random without repetition.

Neither remembers anything but what the attempts say: after a crash the idea that was lost is proposed again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Set

from autoresearch.core.campaign import overrides
from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.proposer import Attempt, Proposer, tried
from autoresearch.core.campaign.space import MOST_GRID_POINTS, Point, Space, need_grid, need_search

_DRAWS = 64
"""Draws before the points that are left are listed, or, in a continuous space, before giving up."""


class Sweep(Proposer):
    """Ideas that are points of a space on top of the baseline; `choose` says which comes next."""

    name = ""

    def __init__(self, space: Space, baseline: Mapping[str, object]) -> None:
        """Raises UsageError `bad_space` where the space holds one point."""
        need_search(space)
        self.space, self.baseline = space, baseline
        self.asked: dict[str, Hypothesis] = {}  # in this life, by fingerprint

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The next point that was neither attempted nor asked for; None when none is left."""
        ideas = [attempt.hypothesis for attempt in attempts]
        mine = [idea.token for idea in (*ideas, *self.asked.values()) if idea.proposer == self.name]
        number = max((int(token) for token in mine if token.isdecimal()), default=-1) + 1
        point = self.choose(number, tried(attempts, self.baseline) | self.asked.keys(), attempts)
        if point is None:
            return None
        idea = Hypothesis(
            slug=overrides.slug(point, self.baseline, {idea.slug for idea in (*ideas, *self.asked.values())}),
            sentence=overrides.sentence(point, self.baseline),
            parent=BASELINE,
            overrides=point,  # every key of the space, so that it stands alone
            proposer=self.name,
            token=str(number),
        )
        self.asked[self.mark(point)] = idea
        return idea

    def choose(self, number: int, known: Set[str], attempts: Sequence[Attempt]) -> Point | None:
        """The point of the idea of this number, with no fingerprint in `known`; None if there is none."""
        raise NotImplementedError

    def mark(self, point: Point) -> str:
        """The fingerprint of a point."""
        return overrides.fingerprint(point, self.baseline)


class GridSweep(Sweep):
    """Every point of the grid once, in the order of the file."""

    name = "grid"

    def __init__(self, space: Space, baseline: Mapping[str, object]) -> None:
        """Raises UsageError `bad_space` where a grid cannot cover the space."""
        need_grid(space)
        super().__init__(space, baseline)

    def choose(self, number: int, known: Set[str], attempts: Sequence[Attempt]) -> Point | None:
        """The first point of the grid that is not known."""
        return next((point for point in self.space.grid() if self.mark(point) not in known), None)


class RandomSweep(Sweep):
    """Points drawn uniformly (in the logarithm where declared); equal seeds draw equal points."""

    name = "random"

    def __init__(self, space: Space, baseline: Mapping[str, object], seed: int = 0) -> None:
        """Raises UsageError `bad_space` where the space holds one point."""
        super().__init__(space, baseline)
        self.seed = seed

    def choose(self, number: int, known: Set[str], attempts: Sequence[Attempt]) -> Point | None:
        """A random point that is not known; None if there is none, or chance finds none."""
        space, chance = self.space, random.Random(f"{self.seed}:{number}")
        for _ in range(_DRAWS):
            point = space.at([chance.random() for _ in space.dimensions])
            if self.mark(point) not in known:
                return point
        if space.size > MOST_GRID_POINTS or any(d.grid_size != d.count for d in space.dimensions):
            return None
        left = [point for point in space.grid() if self.mark(point) not in known]
        return chance.choice(left) if left else None
