"""The search space of a campaign: which recipe keys may take which values. Pure: chance comes from outside.

Reading it from a campaign file is `core.campaign.space_file`; what a point of it changes is `core.campaign.overrides`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoresearch.core.campaign.overrides import canonical, flatten
from autoresearch.errors import UsageError

MOST_GRID_POINTS = 10_000
"""A grid beyond this is a mistake: at a minute each it takes a week."""

Number = int | float
Point = dict[str, object]


@dataclass(frozen=True, slots=True)
class Choices:
    """A key that takes one of these values; a single one is fixed."""

    key: str
    values: tuple[object, ...]

    @property
    def count(self) -> float:
        """How many values there are."""
        return len(self.values)

    @property
    def grid_size(self) -> float:
        """How many values a grid takes of it: all."""
        return len(self.values)

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers, so that a neighbour is likely to do alike."""
        return len(self.values) > 2 and all(
            isinstance(v, int | float) and not isinstance(v, bool) for v in self.values
        )

    def grid(self) -> tuple[object, ...]:
        """Every value, in the order of the file."""
        return self.values

    def at(self, share: float) -> object:
        """The value at a share in [0, 1) of the way: uniform shares draw uniformly."""
        return self.values[int(share * len(self.values))]

    def holds(self, value: object) -> bool:
        """Whether it is one of the values, however it is written."""
        return canonical(value) in map(canonical, self.values)


@dataclass(frozen=True, slots=True)
class Range:
    """A number from `low` to `high`, both included. Whole numbers where all that was written is whole.

    `log`: uniform in the logarithm. `step`: only low, low + step ... (`high` is the last of them).
    `points`: how many values a grid takes of it; it changes nothing for the other proposers.
    """

    key: str
    low: Number
    high: Number
    log: bool = False
    step: Number | None = None
    points: int | None = None
    whole: bool = False

    @property
    def count(self) -> float:
        """How many values there are; infinity for a continuous range."""
        if self.step is not None:
            return round((self.high - self.low) / self.step) + 1
        return self.high - self.low + 1 if self.whole else math.inf

    @property
    def grid_size(self) -> float:
        """How many values a grid takes of it; infinity for a continuous range without `points`."""
        return self.count if self.points is None else len(self.grid())

    def grid(self) -> tuple[object, ...]:
        """The values of a grid, in ascending order; for a range that has a finite number of them."""
        if self.points is None:
            return tuple(self._stepped(n) for n in range(int(self.count)))
        shares = [n / (self.points - 1) for n in range(self.points)]
        return tuple(dict.fromkeys(self._between(share) for share in shares))

    def at(self, share: float) -> object:
        """The value at a share in [0, 1) of the way: uniform shares draw uniformly (in the logarithm)."""
        if self.log and self.whole:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return min(max(round(math.exp(low + share * (high - low))), self.low), self.high)
        if self.count != math.inf:
            return self._stepped(int(share * self.count))
        return self._between(share)

    def tidy(self, value: float) -> Number:
        """The value as a person would write it: 3 digits in a logarithm, else 1/100 to 1/1000 of the range."""
        if self.whole:
            return round(value)
        if self.step is not None:
            return self._stepped(round((value - self.low) / self.step))
        digits = 2 - math.floor(math.log10(self.high - self.low))
        rounded = float(f"{value:.3g}") if self.log else round(value, digits)
        return min(max(rounded, float(self.low)), float(self.high))

    def holds(self, value: object) -> bool:
        """Whether a proposer could have drawn it, but for its rounding."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        if self.count == math.inf:
            return True
        return canonical(self._stepped(round((value - self.low) / (self.step or 1)))) == canonical(value)

    def _between(self, share: float) -> Number:
        """Both ends included: share 1 is `high`."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return self.tidy(math.exp(low + share * (high - low)))
        return self.tidy(self.low + share * (self.high - self.low))

    def _stepped(self, number: int) -> Number:
        value = self.low + number * (self.step or 1)
        return int(value) if self.whole else float(f"{value:.12g}")


Dimension = Choices | Range


@dataclass(frozen=True, slots=True)
class Space:
    """All that may be varied; a point of it is an override set that says every key."""

    dimensions: tuple[Dimension, ...]

    @property
    def size(self) -> float:
        """How many points there are; infinity where a key is continuous."""
        return math.prod(d.count for d in self.dimensions)

    @property
    def free(self) -> tuple[Dimension, ...]:
        """The dimensions that have more than one value."""
        return tuple(d for d in self.dimensions if d.count > 1)

    @property
    def grid_size(self) -> float:
        """Points of the grid; infinity where a continuous key has neither `step` nor `points`."""
        return math.prod(d.grid_size for d in self.dimensions)

    def grid(self) -> Iterator[Point]:
        """Every point of the grid; the last key changes fastest, in the order of the file."""
        keys = [d.key for d in self.dimensions]
        for values in itertools.product(*(d.grid() for d in self.dimensions)):
            yield dict(zip(keys, values, strict=True))

    def at(self, shares: Sequence[float]) -> Point:
        """The point at these shares in [0, 1), one for each dimension."""
        return {d.key: d.at(share) for d, share in zip(self.dimensions, shares, strict=True)}

    def point_in(self, values: Mapping[str, object]) -> Point | None:
        """What these recipe values or overrides say of the space's keys; None if one is missing or outside."""
        flat = flatten(values)
        if not all(d.key in flat and d.holds(flat[d.key]) for d in self.dimensions):
            return None
        return {d.key: flat[d.key] for d in self.dimensions}


def need_search(space: Space) -> None:
    """Refuse a space with nothing to search in. Raises UsageError `bad_space`."""
    if not space.free:
        message = "the space holds one point only, so there is nothing to search"
        raise UsageError(message, code="bad_space", hint="give a key a range or at least two choices")


def need_grid(space: Space) -> None:
    """Refuse a space that a grid cannot cover. Raises UsageError `bad_space`."""
    need_search(space)
    for dimension in space.dimensions:
        if dimension.grid_size == math.inf:
            message = f"{dimension.key}: a grid cannot cover a continuous range"
            hint = "add `points: 5` or a `step`, or search with random or tpe"
            raise UsageError(message, code="bad_space", hint=hint)
    if space.grid_size > MOST_GRID_POINTS:
        message = f"the grid has {space.grid_size:,} points, and {MOST_GRID_POINTS:,} are the most that make sense"
        hint = "take fewer values per key, or search with random or tpe"
        raise UsageError(message, code="bad_space", hint=hint)
