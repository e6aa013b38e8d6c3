"""The search space of a campaign: which recipe keys may take which values. Pure: callers supply the randomness.

    lr: {low: 1e-4, high: 1e-1, log: true}
    group_size: [4, 8, 16]
    temperature: {low: 0.5, high: 1.5, step: 0.25}
    total_steps: [80]

`core.campaign.overrides` compares and names its points.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

from autoresearch.core.campaign.overrides import canonical, flatten, plain
from autoresearch.errors import UsageError

MOST_GRID_POINTS = 10_000
"""A grid beyond this is a mistake: at a minute each it takes a week."""

Number = int | float
Point = dict[str, object]


def on_one_line(value: object) -> str:
    """A value on one line of YAML, with numbers that YAML 1.1 takes for numbers: 1.0e-05."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {on_one_line(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(on_one_line, value))}]"
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        return mantissa + (".0" if exponent and "." not in mantissa else "") + exponent + power
    return json.dumps(value)


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
        return len(self.values)

    @property
    def ordered(self) -> bool:
        """Whether the values are three or more numbers, so that neighbouring ones are likely to perform alike."""
        return len(self.values) > 2 and all(map(_is_number, self.values))

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
            return self._nearest(value)
        digits = 2 - math.floor(math.log10(self.high - self.low))
        rounded = float(f"{value:.3g}") if self.log else round(value, digits)
        return min(max(rounded, float(self.low)), float(self.high))

    def holds(self, value: object) -> bool:
        """Whether a proposer could have drawn it, apart from rounding."""
        if not (_is_number(value) and self.low <= value <= self.high):
            return False
        return self.count == math.inf or canonical(self._nearest(value)) == canonical(value)

    def _between(self, share: float) -> Number:
        """The value for a share in [0, 1], where 1 is `high`."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return self.tidy(math.exp(low + share * (high - low)))
        return self.tidy(self.low + share * (self.high - self.low))

    def _nearest(self, value: float) -> Number:
        return self._stepped(round((value - self.low) / (self.step or 1)))

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
        _refuse(message, "give a key a range or at least two choices")


def need_grid(space: Space) -> None:
    """Refuse a space that a grid cannot cover. Raises UsageError `bad_space`."""
    need_search(space)
    for dimension in space.dimensions:
        if dimension.grid_size == math.inf:
            hint = "add `points: 5` or a `step`, or search with random or tpe"
            _refuse(f"{dimension.key}: a grid cannot cover a continuous range", hint)
    if space.grid_size > MOST_GRID_POINTS:
        message = f"the grid has {space.grid_size:,} points, and {MOST_GRID_POINTS:,} are the most that make sense"
        _refuse(message, "take fewer values per key, or search with random or tpe")


RANGE: dict[str, Any] = {
    "type": ["object", "array"],
    "minItems": 1,
    "minProperties": 1,
    "properties": {
        "low": {"type": "number", "description": "the least value"},
        "high": {"type": "number", "description": "the greatest value"},
        "log": {"type": "boolean", "description": "drawn evenly in the logarithm"},
        "step": {"type": "number", "exclusiveMinimum": 0, "description": "only low, low + step, ..."},
        "points": {"type": "integer", "minimum": 2, "description": "how many values a grid has"},
    },
    "additionalProperties": False,
    "required": ["low", "high"],
}
"""What stands behind a key of a space, as its JSON schema: a range, or the list of its values."""
_TOGETHER = (
    "a nested recipe key is written with dots: `actor.lr`; keys that depend on each other are set together, by entries "
    "of a queue: `queue: [{overrides: {optimizer: sgd, momentum: 0.9}}, {overrides: {optimizer: adam}}]`"
)
_EXAMPLE = "write `key: {low: 1e-4, high: 1e-2, log: true}` or `key: [8, 16, 32]`"


def read_space(data: object, where: str = "space") -> Space:
    """Parse a space from plain YAML data; `where` names the file in messages.

    Raises UsageError `bad_space` for the first invalid key.
    """
    if not isinstance(data, Mapping):
        _refuse(f"{where}: a space maps recipe keys to what they may be", _EXAMPLE)
    if not data:
        _refuse(f"{where}: the space names no key", _EXAMPLE)
    return Space(tuple(_KeyReader(f"{where}: {key}", str(key)).dimension(plain(spec)) for key, spec in data.items()))


@dataclass(frozen=True, slots=True)
class _KeyReader:
    """Reads what one key of a space may be."""

    where: str
    key: str

    def dimension(self, spec: object) -> Dimension:
        if isinstance(spec, list):
            return self.choices(spec)
        if not isinstance(spec, Mapping):
            shown = canonical(spec)
            self.wrong(f"{shown} is neither a range nor a list", f"`[{shown}]` fixes it; else {_EXAMPLE}")
        for word in spec:
            if word not in RANGE["properties"]:
                self.wrong(f"`{word}` is no word of a range", f"{_EXAMPLE}; {_TOGETHER}")
        return self.range(spec)

    def choices(self, values: Sequence[object]) -> Choices:
        if not values:
            self.wrong("the list of choices is empty", "name at least one value")
        seen: set[str] = set()
        for value in values:
            if isinstance(value, float) and not math.isfinite(value):
                self.wrong(f"{value} is no value to train with", "take it out")
            if canonical(value) in seen:
                self.wrong(f"{canonical(value)} stands twice in the list", "take one of them out")
            seen.add(canonical(value))
        return Choices(self.key, tuple(values))

    def range(self, spec: Mapping[str, Any]) -> Range:
        for word in RANGE["required"]:
            if word not in spec:
                self.wrong(f"the range has no `{word}`", _EXAMPLE)
        for word in ("low", "high", "step"):
            if word in spec and not (_is_number(spec[word]) and math.isfinite(spec[word])):
                self.wrong(f"`{word}` is {canonical(spec[word])}, no number", "write a finite number")
        low, high, step = spec["low"], spec["high"], spec.get("step")
        log, points = spec.get("log", False), spec.get("points")
        if not isinstance(log, bool):
            self.wrong(f"`log` is {canonical(log)}", "write `log: true` or leave it out")
        if low >= high:
            self.wrong(f"`low` {low} is not below `high` {high}", f"`[{low}]` fixes a key")
        if log and low <= 0:
            self.wrong(f"`log` needs `low` above 0, and it is {low}", "raise `low`, or leave `log` out")
        if step is not None and (log or points is not None):
            other = "log" if log else "points"
            self.wrong(f"`step` stands beside `{other}`", "keep one; `points: 5` goes with `log`")
        if step is not None and not 0 < step <= high - low:
            self.wrong(f"`step` {step} makes no second value", f"it is above 0 and at most {high - low:.6g}")
        if points is not None and (isinstance(points, bool) or not isinstance(points, int) or points < 2):
            self.wrong(f"`points` is {canonical(points)}", "it is a whole number from 2 on")
        whole = all(isinstance(n, int) for n in (low, high, step) if n is not None)
        if step is not None:
            high = low + math.floor((high - low) / step + 1e-9) * step
        return Range(self.key, low, high, log, step, points, whole)

    def wrong(self, what: str, hint: str) -> NoReturn:
        _refuse(f"{self.where}: {what}", hint)


def _is_number(value: object) -> TypeGuard[Number]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refuse(message: str, hint: str) -> NoReturn:
    raise UsageError(message, code="bad_space", hint=hint)
