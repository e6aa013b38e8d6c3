"""What names a metric: a key, or an arithmetic expression over keys, parsed from text and never executed as code.

    val-core/openai/gsm8k/acc/mean@1        a key, with any characters, unless it begins like an expression
    max(val/pass@1)                         max min mean first last of one key
    mean(reward, last 5)                    over its last (or first) five points
    mean(reward, 10..20)                    over its points at steps 10 to 20; either end may be omitted
    max(val/pass@1) - 0.5 * first("a, b")   + - * / and brackets; a key with a comma must be quoted

A text is an expression if it begins with one of the five functions and a bracket, or with a quotation mark, with
or without signs, brackets and numbers before it. Any other text is a key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from autoresearch.core.text.regex import later

WORDS = ("max", "min", "mean", "first", "last")
EXPRESSIONS = "a key as it is written, or max(key), mean(key, last 5), mean(key, 10..20), max(a) - last(b)"
MOST_CHARACTERS = 1000
MOST_NESTED = 30

_NUMBER = r"\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
_FUNCTION = rf"(?P<word>{'|'.join(WORDS)})\s*\("
_STARTS = later(rf"\s*(?:[-+(]\s*|(?:{_NUMBER})\s*[-+*/]\s*)*(?:{_FUNCTION}|[\"'])")
_CALL = later(rf"\s*{_FUNCTION}")
_PLAIN = later(rf"\s*(?P<number>{_NUMBER})(?!\w)")
_COUNTED = later(r"\s*(?P<end>last|first)\s+(?P<count>[1-9]\d{0,8})\s*\Z")
_RANGE = later(r"\s*(?P<low>\d{1,12})?\s*\.\.\s*(?P<high>\d{1,12})?\s*\Z")

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


class ExpressionError(ValueError):
    """A syntax error in an expression; `position` counts characters from 0."""

    def __init__(self, text: str, position: int, message: str) -> None:
        self.position = position
        super().__init__(f"{text!r}, character {position + 1}: {message}")


@lru_cache(maxsize=256)
def parse(text: str) -> Expression:
    """Parse a key or an expression. ExpressionError, with the position and what is expected there, if malformed."""
    if not _STARTS.match(text):
        return MetricKey(text)
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(text[:40], MOST_CHARACTERS, f"longer than {MOST_CHARACTERS} characters")
    reader = _ExpressionParser(text)
    expression = reader.sum()
    if reader.left.strip():
        raise reader.wrong(f"expected + - * / or the end, found {reader.left.strip()[:20]!r}")
    if not keys(expression):
        raise ExpressionError(text, 0, "no metric is named")
    return expression


class _ExpressionParser:
    """Recursive-descent parser of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    @property
    def left(self) -> str:
        return self.text[self.at :]

    def wrong(self, message: str, at: int | None = None) -> ExpressionError:
        position = self.at + len(self.left) - len(self.left.lstrip()) if at is None else at
        return ExpressionError(self.text, position, message)

    def sum(self) -> Expression:
        expression = self.product()
        while sign := self.sign("+-"):
            expression = Combined(sign, expression, self.product())
        return expression

    def product(self) -> Expression:
        expression = self.part()
        while sign := self.sign("*/"):
            expression = Combined(sign, expression, self.part())
        return expression

    def sign(self, signs: str) -> str:
        rest = self.left.lstrip()
        if not rest or rest[0] not in signs:
            return ""
        self.at = len(self.text) - len(rest) + 1
        return rest[0]

    def part(self) -> Expression:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise self.wrong(f"more than {MOST_NESTED} brackets and signs in one another")
        expression = self.one()
        self.depth -= 1
        return expression

    def one(self) -> Expression:
        if sign := self.sign("+-"):
            inner = self.part()
            return inner if sign == "+" else Combined("-", Number(0.0), inner)
        if self.sign("("):
            inner = self.sum()
            if not self.sign(")"):
                raise self.wrong("expected a closing bracket")
            return inner
        if quote := self.sign("\"'"):
            return Reduced("last", self.quoted(quote))
        if call := _CALL.match(self.text, self.at):
            self.at = call.end()
            return self.call(call["word"])
        if plain := _PLAIN.match(self.text, self.at):
            self.at = plain.end()
            return Number(float(plain["number"]))
        raise self.wrong(
            f"expected a number, a bracket, a key in quotes or one of {', '.join(f'{w}(...)' for w in WORDS)}"
        )

    def quoted(self, quote: str) -> str:
        end = self.text.find(quote, self.at)
        if end < 0:
            raise self.wrong(f"the quotation mark {quote} is not closed", self.at - 1)
        if end == self.at:
            raise self.wrong("expected the name of a metric between the quotation marks", end)
        key, self.at = self.text[self.at : end], end + 1
        return key

    def call(self, word: str) -> Expression:
        """Parse the arguments of a function: a key and, optionally, a window."""
        start, quote = self.at, self.sign("\"'")
        quoted = self.quoted(quote) if quote else ""
        inner, end = self.at, self.closing(word)
        inside = self.text[inner:end]
        comma = _last_comma(inside)
        plain = inside[: len(inside) if comma < 0 else comma].strip()
        if quoted and plain:
            raise self.wrong("expected a comma or the closing bracket")
        if not quoted and not plain:
            raise self.wrong(f"expected the name of a metric, as in {word}(reward)", start)
        if _CALL.match(plain):
            raise self.wrong(
                f"{word}() takes one metric, no other function; a key that is called so stands in quotes", start
            )
        window = Window() if comma < 0 else self.window(inside[comma + 1 :], inner + comma + 1)
        self.at = end + 1
        return Reduced(word, quoted or plain, window)

    def closing(self, word: str) -> int:
        depth = 0
        for n in range(self.at, len(self.text)):
            depth += {"(": 1, ")": -1}.get(self.text[n], 0)
            if depth < 0:
                return n
        raise self.wrong(f"the bracket of {word}( is not closed", len(self.text))

    def window(self, text: str, at: int) -> Window:
        if counted := _COUNTED.match(text):
            return Window(**{counted["end"]: int(counted["count"])})
        span = _RANGE.match(text)
        if span is None or not (span["low"] or span["high"]):
            position = at + len(text) - len(text.lstrip())
            raise self.wrong(
                "expected `last N`, `first N` or steps such as 10..20 after the comma; "
                "a key that holds a comma stands in quotes",
                position,
            )
        low, high = (int(end) if end else None for end in (span["low"], span["high"]))
        if low is not None and high is not None and low > high:
            raise self.wrong(f"the steps {low}..{high} are none: the first is behind the last", at)
        return Window(low=low, high=high)


def _last_comma(text: str) -> int:
    """Index of the last comma outside brackets; -1 if there is none."""
    depth = 0
    for n in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[n], 0)
        if text[n] == "," and depth == 0:
            return n
    return -1


def near_miss(text: str) -> str:
    """The function that was probably meant by a key such as `avg(reward)`, here `mean(...)`; "" if there is none."""
    call = re.match(r"\s*(?P<word>[a-z_]{2,12})\s*\(.*\)\s*\Z", text, re.IGNORECASE)
    meant = {
        "avg": "mean", "average": "mean", "maximum": "max", "best": "max", "minimum": "min", "final": "last",
        "latest": "last", **{word.upper(): word for word in WORDS}, **{word.title(): word for word in WORDS},
    }  # fmt: skip
    word = call["word"] if call else ""
    return f"{meant[word]}(...)" if word in meant else ""
