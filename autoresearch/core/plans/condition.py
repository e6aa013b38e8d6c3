"""A condition over the results of a stage of a plan, such as `confirmed >= 1 and delta > 2 * noise`.

It consists of comparisons, `and`, `or`, `not`, `+ - * /`, brackets, numbers and the words below; it is parsed, never
executed as code. A number alone is true unless it is 0 (`not kept`). A value that was not measured is unknown, and so
is every comparison with it: a condition holds, does not hold, or is undecided (three-valued logic: Kleene,
*Introduction to Metamathematics*, 64).
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

WORDS = {
    "baseline": "mean of the baseline's runs",
    "best": "search mean of the best idea that is kept, which was picked for it; the baseline's where none is",
    "delta": "how much better that is than the baseline; positive in either direction; 0 where none is kept",
    "noise": "standard deviation of one run",
    "kept": "ideas that are kept, demoted ones not counted",
    "confirmed": "ideas that were proved with fresh seeds",
    "confirmed_delta": "how much better the best of those is, estimated from its fresh runs; positive in either "
    "direction; unknown where there is none",
    "demoted": "ideas that were kept, and failed their proof",
    "attempted": "ideas that were begun, the baseline is one",
    "crashed": "ideas that yielded no metric",
    "crashed_share": "the same, as a share of those attempted",
    "runs": "rows of the ledger",
    "hours": "hours from the stage's beginning to its last row",
    "gpu_hours": "GPU hours of all runs",
    "ended": "1 if a stop rule ended it, 0 if somebody did",
}
OF_IDEA = {
    "value": "mean of the idea's search runs",
    "delta": "how much better that is than the baseline",
    "kept": "1 if it is kept",
    "confirmed": "1 if it was proved",
    "crashed": "1 if it yielded no metric",
}
MOST_CHARACTERS = 1000
MOST_NESTED = 30

Facts: TypeAlias = Mapping[str, float | None]
"""The number of each word or `word(slug)`; it is unknown if it is None or missing."""

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)(?![\w.])"
                    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign>>=|<=|==|!=|[-+*/()<>]))")  # fmt: skip
_IDEA = re.compile(r"\s*\(\s*(?P<slug>[a-z0-9][a-z0-9-]*)\s*\)")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_COMBINE: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
KEYWORDS = ("and", "or", "not")


class ConditionError(ValueError):
    """An error in a condition; `position` counts characters from 0."""

    def __init__(self, text: str, position: int, message: str) -> None:
        self.position = position
        shown = text if len(text) <= 80 else text[:79] + "…"
        super().__init__(f"{shown!r}, character {position + 1}: {message}")


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the syntax tree of a condition: a number, a word, or an operator with its operands."""

    sign: str  # "number", "word", or the operator
    at: int
    parts: tuple[Node, ...] = ()
    number: float = 0.0
    word: str = ""

    @property
    def is_truth(self) -> bool:
        """Whether it evaluates to true or false rather than to a number."""
        return self.sign in _COMPARE or self.sign in KEYWORDS


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: its text and its syntax tree."""

    text: str
    root: Node
    words: tuple[str, ...]  # the values it needs, in the order of the text: `best`, `value(lr-high)`

    @property
    def slugs(self) -> tuple[str, ...]:
        """The ideas that it names."""
        return tuple(word.partition("(")[2].rstrip(")") for word in self.words if "(" in word)

    def holds(self, facts: Facts) -> bool | None:
        """Whether the condition holds for these facts; None if undecided because a value is unknown."""
        return _truth(self.root, facts)


def parse(text: str) -> Condition:
    """Parse a condition. ConditionError, with the position and what is expected there, if it is malformed."""
    if len(text) > MOST_CHARACTERS:
        raise ConditionError(text, MOST_CHARACTERS, f"longer than {MOST_CHARACTERS} characters")
    reader = _ConditionParser(text)
    root = reader.either()
    if reader.sign:
        hint = "write `a < b and b < c`" if reader.sign in _COMPARE else "expected `and`, `or` or the end"
        raise reader.wrong(f"{hint}, found {reader.sign!r}")
    if not reader.words:
        raise ConditionError(text, 0, f"it asks for nothing that is measured; the words are {', '.join(WORDS)}")
    return Condition(text, root, tuple(reader.words))


class _ConditionParser:
    """Recursive-descent parser of one text; `sign` is the next token, "" at the end."""

    def __init__(self, text: str) -> None:
        self.text, self.end, self.depth = text, 0, 0
        self.words: list[str] = []
        self.step()

    def step(self) -> str:
        """Advance to the next token and return the current one."""
        before = getattr(self, "sign", "")
        self.at = len(self.text) - len(self.text[self.end :].lstrip())
        token = _TOKEN.match(self.text, self.end)
        if token is None and self.at < len(self.text):
            raise ConditionError(self.text, self.at, f"{self.text[self.at : self.at + 10]!r} means nothing here")
        self.kind = (token.lastgroup or "") if token else ""
        self.sign, self.end = (token[self.kind], token.end()) if token else ("", len(self.text))
        return before

    def wrong(self, message: str, at: int | None = None) -> ConditionError:
        return ConditionError(self.text, self.at if at is None else at, message)

    def deeper(self, operand: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise self.wrong(f"more than {MOST_NESTED} brackets and signs in one another")
        node = operand()
        self.depth -= 1
        return node

    def joined(self, signs: tuple[str, ...], part: Callable[[], Node]) -> Node:
        node = part()
        while self.sign in signs and self.sign:
            at, sign = self.at, self.step()
            node = Node(sign, at, (self.fit(sign, node), self.fit(sign, part())))
        return node

    def fit(self, sign: str, part: Node) -> Node:
        """Return the operand; ConditionError if the operator needs a number and the operand is a truth value."""
        if sign not in KEYWORDS and part.is_truth:
            raise self.wrong(f"{sign!r} needs numbers, and this is true or false", part.at)
        return part

    def either(self) -> Node:
        return self.joined(("or",), self.both)

    def both(self) -> Node:
        return self.joined(("and",), self.negated)

    def negated(self) -> Node:
        if self.sign != "not":
            return self.compared()
        at = self.at
        self.step()
        return Node("not", at, (self.deeper(self.negated),))

    def compared(self) -> Node:
        left = self.joined(("+", "-"), self.product)
        if self.sign not in _COMPARE:
            return left
        at, sign = self.at, self.step()
        right = self.joined(("+", "-"), self.product)
        return Node(sign, at, (self.fit(sign, left), self.fit(sign, right)))

    def product(self) -> Node:
        return self.joined(("*", "/"), self.part)

    def part(self) -> Node:
        at = self.at
        if self.sign in ("-", "+"):
            sign = self.step()
            inner = self.fit(sign, self.deeper(self.part))
            return inner if sign == "+" else Node("-", at, (Node("number", at), inner))
        if self.sign == "(":
            self.step()
            inner = self.deeper(self.either)
            if self.sign != ")":
                raise self.wrong("expected a closing bracket")
            self.step()
            return inner
        if self.kind == "number":
            return Node("number", at, number=float(self.step()))
        if self.kind == "word" and self.sign not in KEYWORDS:
            return self.word()
        instead = f", found {self.sign!r}" if self.sign else ""
        raise self.wrong(f"expected a number, a bracket or a word{instead}; the words are {', '.join(WORDS)}")

    def word(self) -> Node:
        at, name, idea = self.at, self.sign, _IDEA.match(self.text, self.end)
        known = OF_IDEA if idea else WORDS
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the words are {', '.join(known)}"
            kind = "is no word about an idea" if idea else "is no word of a condition"
            missing = f"write `{name}(slug-of-an-idea)`" if name in OF_IDEA else hint
            raise self.wrong(f"{name!r} {kind}; {missing}")
        if idea:
            name, self.end = f"{name}({idea['slug']})", idea.end()
        self.step()
        self.words += [] if name in self.words else [name]
        return Node("word", at, word=name)


def _truth(node: Node, facts: Facts) -> bool | None:
    if node.sign == "not":
        inner = _truth(node.parts[0], facts)
        return None if inner is None else not inner
    if node.sign in ("and", "or"):
        truths, decides = [_truth(part, facts) for part in node.parts], node.sign == "or"
        return decides if decides in truths else None if None in truths else not decides
    if node.sign in _COMPARE:
        left, right = (_number(part, facts) for part in node.parts)
        return None if left is None or right is None else _COMPARE[node.sign](left, right)
    number = _number(node, facts)
    return None if number is None else number != 0


def _number(node: Node, facts: Facts) -> float | None:
    if node.sign == "number":
        return node.number
    if node.sign == "word":
        number = facts.get(node.word)
        return number if number is not None and math.isfinite(number) else None
    left, right = (_number(part, facts) for part in node.parts)
    if left is None or right is None:
        return None
    try:
        number = _COMBINE[node.sign](left, right)
    except (ZeroDivisionError, OverflowError):
        return None
    return number if math.isfinite(number) else None
