"""Parses what names a metric: a key, or an arithmetic expression over keys. It is never executed as code.

    val-core/openai/gsm8k/acc/mean@1        a key, with any characters, unless it begins like an expression
    max(val/pass@1)                         max min mean first last of one key
    mean(reward, last 5)                    over its last (or first) five points
    mean(reward, 10..20)                    over its points at steps 10 to 20; either end may be omitted
    max(val/pass@1) - 0.5 * first("a, b")   + - * / and brackets; a key with a comma must be quoted

A text is an expression if it begins with one of the five functions and a bracket, or with a quotation mark, with
or without signs, brackets and numbers before it. Any other text is a key.
"""

from __future__ import annotations

import re
from functools import lru_cache

from autoresearch.core.metrics.expression import WORDS, Combined, Expression, MetricKey, Number, Reduced, Window, keys
from autoresearch.core.text.regex import later

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
        if quote := self.sign("\"'"):
            key = self.quoted(quote)
            return Reduced(word, key, self.rest_of_call(word))
        start, end = self.at, self.closing(word)
        inside = self.text[start:end]
        comma = _last_comma(inside)
        key = inside[: len(inside) if comma < 0 else comma].strip()
        if not key:
            raise self.wrong(f"expected the name of a metric, as in {word}(reward)", start)
        if _CALL.match(key):
            raise self.wrong(
                f"{word}() takes one metric, no other function; a key that is called so stands in quotes", start
            )
        window = Window() if comma < 0 else self.window(inside[comma + 1 :], start + comma + 1)
        self.at = end + 1
        return Reduced(word, key, window)

    def rest_of_call(self, word: str) -> Window:
        """Parse what follows a quoted key: an optional comma and window, and the closing bracket."""
        start, end = self.at, self.closing(word)
        rest = self.text[start:end]
        if rest.strip() and not rest.lstrip().startswith(","):
            raise self.wrong("expected a comma or the closing bracket")
        window = self.window(rest.partition(",")[2], start + rest.find(",") + 1) if rest.strip() else Window()
        self.at = end + 1
        return window

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
