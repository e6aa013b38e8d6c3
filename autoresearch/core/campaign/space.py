"""The search space of a campaign: which recipe keys may take which values. Pure: callers supply the randomness.

`core.campaign.space_file` reads it from a campaign file; `core.campaign.overrides` compares and names its points.
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
    """A key that takes one of the given values; a single value is fixed."""

    key: str
    values: tuple[object, ...]

    @property
    def count(self) -> float:
        return len(self.values)

    @property
    def grid_size(self) -> float:
        """Number of values in a grid: all."""
        return len(self.values)

    @property
    def ordered(self) -> bool:
        """Whether the values are three or more numbers, so that neighbouring ones are likely to perform alike."""
        return len(self.values) > 2 and all(
            isinstance(v, int | float) and not isinstance(v, bool) for v in self.values
        )

    def grid(self) -> tuple[object, ...]:
        """Every value, in the order of the file."""
        return self.values

    def at(self, share: float) -> object:
        """The value for a share in [0, 1): uniform shares give uniform draws."""
        return self.values[int(share * len(self.values))]

    def holds(self, value: object) -> bool:
        """Whether it is one of the values, in any spelling."""
        return canonical(value) in map(canonical, self.values)


@dataclass(frozen=True, slots=True)
class Range:
    """A number from `low` to `high`, both included; an integer if every given number is one.

    `log`: uniform in the logarithm. `step`: only low, low + step ... (`high` is the last of them).
    `points`: the number of values in a grid; other proposers ignore it.
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
        """Number of values; infinity for a continuous range."""
        if self.step is not None:
            return round((self.high - self.low) / self.step) + 1
        return self.high - self.low + 1 if self.whole else math.inf

    @property
    def grid_size(self) -> float:
        """Number of values in a grid; infinity for a continuous range without `points`."""
        return self.count if self.points is None else len(self.grid())

    def grid(self) -> tuple[object, ...]:
        """The values of a grid, in ascending order; only for a finite `grid_size`."""
        if self.points is None:
            return tuple(self._stepped(n) for n in range(int(self.count)))
        shares = [n / (self.points - 1) for n in range(self.points)]
        return tuple(dict.fromkeys(self._between(share) for share in shares))

    def at(self, share: float) -> object:
        """The value for a share in [0, 1): uniform shares give uniform draws (in the logarithm with `log`)."""
        if self.log and self.whole:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return min(max(round(math.exp(low + share * (high - low))), self.low), self.high)
        if self.count != math.inf:
            return self._stepped(int(share * self.count))
        return self._between(share)

    def tidy(self, value: float) -> Number:
        """The value rounded: to 3 significant digits with `log`, else to 1/100 to 1/1000 of the range."""
        if self.whole:
            return round(value)
        if self.step is not None:
            return self._stepped(round((value - self.low) / self.step))
        digits = 2 - math.floor(math.log10(self.high - self.low))
        rounded = float(f"{value:.3g}") if self.log else round(value, digits)
        return min(max(rounded, float(self.low)), float(self.high))

    def holds(self, value: object) -> bool:
        """Whether a proposer could have drawn it, apart from rounding."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        if self.count == math.inf:
            return True
        return canonical(self._stepped(round((value - self.low) / (self.step or 1)))) == canonical(value)

    def _between(self, share: float) -> Number:
        """The value for a share in [0, 1], where 1 is `high`."""
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
    """Everything that may be varied; a point is an override set that contains every key."""

    dimensions: tuple[Dimension, ...]

    @property
    def size(self) -> float:
        """Number of points; infinity if a key is continuous."""
        return math.prod(d.count for d in self.dimensions)

    @property
    def free(self) -> tuple[Dimension, ...]:
        """The dimensions with more than one value."""
        return tuple(d for d in self.dimensions if d.count > 1)

    @property
    def grid_size(self) -> float:
        """Number of grid points; infinity if a continuous key has neither `step` nor `points`."""
        return math.prod(d.grid_size for d in self.dimensions)

    def grid(self) -> Iterator[Point]:
        """Every point of the grid; the last key changes fastest, in the order of the file."""
        keys = [d.key for d in self.dimensions]
        for values in itertools.product(*(d.grid() for d in self.dimensions)):
            yield dict(zip(keys, values, strict=True))

    def at(self, shares: Sequence[float]) -> Point:
        """The point for the given shares in [0, 1), one per dimension."""
        return {d.key: d.at(share) for d, share in zip(self.dimensions, shares, strict=True)}

    def point_in(self, values: Mapping[str, object]) -> Point | None:
        """The point that recipe values or overrides describe; None if a key of the space is missing or out of range."""
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
