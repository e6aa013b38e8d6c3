"""Sweeps: every point of a grid in order, or points at random without repetition.

Neither remembers anything but what the attempts say: after a crash the idea that was lost is proposed again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence, Set

from autoresearch.core.campaign import overrides
from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.proposer import Attempt, tried
from autoresearch.core.campaign.space import MOST_GRID_POINTS, Point, Space, need_grid, need_search

_DRAWS = 64
"""Draws before the points that are left are listed, or, in a continuous space, before giving up."""


class GridSweep:
    """Every point of the grid once, in the order of the file; the token is the point's number."""

    name = "grid"

    def __init__(self, space: Space, baseline: Mapping[str, object]) -> None:
        """Raises UsageError `bad_space` where a grid cannot cover the space."""
        need_grid(space)
        self._space, self._baseline = space, baseline
        self._asked: dict[str, str] = {}  # in this life: token -> slug

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The first point that was neither attempted nor asked for; None when the grid is done."""
        gone = self._asked.keys() | tokens(self.name, attempts)
        known = tried(attempts, self._baseline)
        for number, point in enumerate(self._space.grid()):
            if str(number) not in gone and overrides.fingerprint(point, self._baseline) not in known:
                idea = hypothesis(self.name, str(number), point, self._baseline, slugs(attempts, self._asked.values()))
                self._asked[idea.token] = idea.slug
                return idea
        return None

    def tell(self, attempt: Attempt) -> None:
        """A grid learns nothing."""

    def close(self) -> None:
        """Nothing is held open."""


class RandomSweep:
    """Points drawn uniformly (in the logarithm where declared); equal seeds draw equal points."""

    name = "random"

    def __init__(self, space: Space, baseline: Mapping[str, object], seed: int = 0) -> None:
        """Raises UsageError `bad_space` where the space holds one point."""
        need_search(space)
        self.space, self.baseline, self.seed = space, baseline, seed
        self._last = -1  # the highest number asked for in this life
        self.asked: dict[str, Hypothesis] = {}  # in this life, by fingerprint

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The next point that was neither attempted nor asked for; None when none is left."""
        known = tried(attempts, self.baseline) | self.asked.keys()
        numbers = [int(token) for token in tokens(self.name, attempts) if token.isdecimal()]
        number = max([self._last, *numbers]) + 1
        point = self.choose(number, known, attempts) or untried(
            self.space, self.baseline, known, f"{self.seed}:{number}"
        )
        if point is None:
            return None
        taken = slugs(attempts, [idea.slug for idea in self.asked.values()])
        idea = hypothesis(self.name, str(number), point, self.baseline, taken)
        self.asked[overrides.fingerprint(point, self.baseline)] = idea
        self._last = number
        return idea

    def choose(self, number: int, known: Set[str], attempts: Sequence[Attempt]) -> Point | None:
        """The point of the idea of this number, with no fingerprint in `known`; None leaves it to chance."""
        return None

    def tell(self, attempt: Attempt) -> None:
        """Nothing is remembered that the attempts do not say."""

    def close(self) -> None:
        """Nothing is held open."""


def untried(space: Space, baseline: Mapping[str, object], known: Set[str], seed: str) -> Point | None:
    """A random point whose fingerprint is not known; None if there is none, or chance finds none."""
    chance = random.Random(seed)
    for _ in range(_DRAWS):
        point = space.at([chance.random() for _ in space.dimensions])
        if overrides.fingerprint(point, baseline) not in known:
            return point
    if space.size > MOST_GRID_POINTS or any(d.grid_size != d.count for d in space.dimensions):
        return None
    left = [point for point in space.grid() if overrides.fingerprint(point, baseline) not in known]
    return chance.choice(left) if left else None


def spread(space: Space, seed: int, count: int) -> list[Point]:
    """So many points that cover each key evenly: a Latin hypercube (McKay, Beckman, Conover, 1979).

    They lie in the middle of its cells: the ends of a range are seldom its best places.
    """
    chance = random.Random(f"{seed}:spread")
    columns = []
    for _ in space.dimensions:
        cells = list(range(count))
        chance.shuffle(cells)
        columns.append([(cell + 0.5) / count for cell in cells])
    return [space.at(shares) for shares in zip(*columns, strict=True)]


def tokens(name: str, attempts: Sequence[Attempt]) -> set[str]:
    """The tokens of the attempts that this proposer proposed."""
    return {a.hypothesis.token for a in attempts if a.hypothesis.proposer == name}


def slugs(attempts: Sequence[Attempt], names: Iterable[str]) -> set[str]:
    """The names that are taken."""
    return {a.hypothesis.slug for a in attempts} | set(names)


def hypothesis(name: str, token: str, point: Point, baseline: Mapping[str, object], taken: Set[str]) -> Hypothesis:
    """A point as an idea on top of the baseline: every key of the space is written, so that it stands alone."""
    return Hypothesis(
        slug=overrides.slug(point, baseline, taken),
        sentence=overrides.sentence(point, baseline),
        parent=BASELINE,
        overrides=point,
        proposer=name,
        token=token,
    )
