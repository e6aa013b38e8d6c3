"""Expression: a small sum over the series of a run, as values; `expression_parser` reads one from a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

WORDS = ("max", "min", "mean", "first", "last")

Point = tuple[int, float]  # step, value
SeriesOf = Callable[[str], Sequence[Point]]


@dataclass(frozen=True, slots=True)
class Window:
    """Which points of a series count: so many at its end or its beginning, or those of some steps (inclusive)."""

    last: int | None = None
    first: int | None = None
    low: int | None = None
    high: int | None = None

    def of(self, points: Sequence[Point]) -> Sequence[Point]:
        """The points that count, in their order."""
        if self.last is not None:
            return points[-self.last :]
        if self.first is not None:
            return points[: self.first]
        if self.low is None and self.high is None:
            return points
        low, high = self.low or 0, math.inf if self.high is None else self.high
        return [point for point in points if low <= point[0] <= high]


@dataclass(frozen=True, slots=True)
class MetricKey:
    """A metric by its name: its last value."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written."""

    value: float


@dataclass(frozen=True, slots=True)
class Reduced:
    """One of `WORDS`, of the points of one key."""

    word: str
    key: str
    window: Window = Window()


@dataclass(frozen=True, slots=True)
class Combined:
    """Two expressions and a sign between them."""

    sign: str
    left: Expression
    right: Expression


Expression = MetricKey | Number | Reduced | Combined


def keys(expression: Expression) -> tuple[str, ...]:
    """The metrics that an expression names, each once, in its order."""
    return tuple(dict.fromkeys(_keys(expression)))


def _keys(expression: Expression) -> Iterator[str]:
    match expression:
        case MetricKey(name=name) | Reduced(key=name):
            yield name
        case Combined(left=left, right=right):
            yield from _keys(left)
            yield from _keys(right)


def value(expression: Expression, series: SeriesOf) -> Point | None:
    """The number that an expression comes to, at the step where it was reached; None where a key has no points.

    max and min pass over what is not finite; a mean with NaN in it is NaN. A quotient by zero is NaN.
    """
    match expression:
        case Number(value=number):
            return 0, number
        case MetricKey(name=name):
            return _reduced("last", series(name))
        case Reduced(word=word, key=key, window=window):
            return _reduced(word, window.of(series(key)))
        case Combined(sign=sign, left=left, right=right):
            a, b = value(left, series), value(right, series)
            return None if a is None or b is None else (max(a[0], b[0]), _combined(sign, a[1], b[1]))


def curve(expression: Expression, series: SeriesOf) -> list[Point]:
    """What the expression came to at each step so far; its last value is that of `value`, but for rounding."""
    match expression:
        case Number(value=number):
            return [(-1, number)]
        case MetricKey(name=name):
            return list(series(name))
        case Reduced(word=word, key=key, window=window):
            return list(_running(word, window, series(key)))
        case Combined(sign=sign, left=left, right=right):
            return list(_together(sign, curve(left, series), curve(right, series)))


def _reduced(word: str, points: Sequence[Point]) -> Point | None:
    if not points:
        return None
    if word == "mean":
        values = [v for _, v in points]
        mean = math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan
        return points[-1][0], mean
    if word in ("first", "last"):
        return points[0] if word == "first" else points[-1]
    finite = [point for point in points if math.isfinite(point[1])]
    if not finite:
        return points[-1][0], math.nan
    return (max if word == "max" else min)(finite, key=lambda point: point[1])


def _running(word: str, window: Window, points: Sequence[Point]) -> Iterator[Point]:
    if window.last is not None:
        for end in range(1, len(points) + 1):
            reduced = _reduced(word, points[max(0, end - window.last) : end])
            if reduced is not None:
                yield points[end - 1][0], reduced[1]
        return
    counted = window.of(points)
    steps, values = [s for s, _ in counted], [v for _, v in counted]
    if word == "last":
        yield from counted
    elif word == "first":
        yield from ((step, values[0]) for step in steps)
    elif word == "mean":
        yield from ((s, total / n) for n, (s, total) in enumerate(zip(steps, accumulate(values), strict=True), 1))
    else:
        choose = max if word == "max" else min
        yield from zip(steps, accumulate(values, lambda a, b: _chosen(choose, a, b)), strict=True)


def _chosen(choose: Callable[[float, float], float], a: float, b: float) -> float:
    """max or min of two, of which one that is not finite is passed over; NaN where neither is."""
    if math.isfinite(a) and math.isfinite(b):
        return choose(a, b)
    return b if math.isfinite(b) else a if math.isfinite(a) else math.nan


def _together(sign: str, left: Sequence[Point], right: Sequence[Point]) -> Iterator[Point]:
    """At each step of either side, what both came to until then."""
    a, b, at_left, at_right = math.nan, math.nan, dict(left), dict(right)
    first = max(min(at_left, default=math.inf), min(at_right, default=math.inf))
    for step in sorted({*at_left, *at_right}):
        a, b = at_left.get(step, a), at_right.get(step, b)
        if step >= first:
            yield step, _combined(sign, a, b)


def _combined(sign: str, a: float, b: float) -> float:
    try:
        return {"+": a + b, "-": a - b, "*": a * b}[sign] if sign != "/" else a / b
    except (ZeroDivisionError, OverflowError):
        return math.nan
