"""Expression: an arithmetic expression over the metric series of a run; `expression_parser` parses one from text."""

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
    """Which points of a series count: the last or first N, or those from step `low` to step `high`, inclusive."""

    last: int | None = None
    first: int | None = None
    low: int | None = None
    high: int | None = None

    def of(self, points: Sequence[Point]) -> Sequence[Point]:
        """The points inside the window, in order."""
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
    """A metric by its name; it evaluates to its last value."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A numeric constant."""

    value: float


@dataclass(frozen=True, slots=True)
class Reduced:
    """A call of one of `WORDS` on the points of one key, as in `max(reward, last 5)`."""

    word: str
    key: str
    window: Window = Window()


@dataclass(frozen=True, slots=True)
class Combined:
    """Two expressions joined by one of the operators + - * /."""

    sign: str
    left: Expression
    right: Expression


Expression = MetricKey | Number | Reduced | Combined


def keys(expression: Expression) -> tuple[str, ...]:
    """The metrics that an expression names, each once, in order of appearance."""
    return tuple(dict.fromkeys(_keys(expression)))


def _keys(expression: Expression) -> Iterator[str]:
    match expression:
        case MetricKey(name=name) | Reduced(key=name):
            yield name
        case Combined(left=left, right=right):
            yield from _keys(left)
            yield from _keys(right)


def value(expression: Expression, series: SeriesOf) -> Point | None:
    """The value of an expression and the step at which it was reached; None if one of its keys has no points.

    max and min skip values that are not finite; a mean over any such value is NaN, and so is a division by zero.
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
    """The value of the expression at each step, from the points up to it; the last equals `value` up to rounding."""
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
    """max or min of two values, skipping one that is not finite; NaN if neither is finite."""
    if math.isfinite(a) and math.isfinite(b):
        return choose(a, b)
    return b if math.isfinite(b) else a if math.isfinite(a) else math.nan


def _together(sign: str, left: Sequence[Point], right: Sequence[Point]) -> Iterator[Point]:
    """Combine two curves at every step of either one, with the latest value of each side."""
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
