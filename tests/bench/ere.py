"""Python regexes as POSIX extended ones, so that grep can be asked the same question.

What ERE cannot say is left out: looks around, so that a translation matches at least the lines of the
original. Long bounded repeats become `*` or `+`, as a person would write them for grep, who would
otherwise run out of memory or time.
"""

from __future__ import annotations

import re
from re import _constants as words  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

LONG = 32  # a bounded repeat beyond this costs grep a state each
_CLASSES = {
    words.CATEGORY_DIGIT: "0-9",
    words.CATEGORY_WORD: "[:alnum:]_",
    words.CATEGORY_SPACE: "[:space:]",
}


def translated(pattern: str) -> str:
    """The pattern as an extended regular expression that matches where it does, and perhaps more."""
    return _sequence(parser.parse(pattern, re.MULTILINE))


def _sequence(items: Any) -> str:
    return "".join(_one(op, value) for op, value in items)


def _one(op: Any, value: Any) -> str:
    if op is words.LITERAL:
        return _literal(value)
    if op is words.NOT_LITERAL:
        return f"[^{chr(value)}]"
    if op is words.ANY:
        return "."
    if op is words.IN:
        return _set(value)
    if op in (words.MAX_REPEAT, words.MIN_REPEAT, words.POSSESSIVE_REPEAT):
        return _repeat(*value)
    if op is words.SUBPATTERN:
        return _group(value[3])
    if op is words.ATOMIC_GROUP:
        return _group(value)
    if op is words.BRANCH:
        branches = [_sequence(branch) for branch in value[1]]
        return f"({'|'.join(branches)})" if any(branches) else ""
    if op is words.AT:
        return "\\b" if value is words.AT_BOUNDARY else ""
    if op in (words.ASSERT, words.ASSERT_NOT):
        return ""
    raise NotImplementedError(str(op))


def _group(items: Any) -> str:
    inside = _sequence(items)
    return f"({inside})" if inside else ""


def _literal(code: int) -> str:
    character = chr(code)
    return "\\" + character if character in r".[]{}()*+?|^$\\" else character


def _set(items: Any) -> str:
    negated = bool(items) and items[0][0] is words.NEGATE
    inside = last = ""
    for op, value in items[negated:]:
        if op is words.LITERAL:
            if value in (10, 13):
                continue  # a line of grep's holds no newline
            if chr(value) == "]":
                inside = "]" + inside
            elif chr(value) in "-^":
                last += chr(value)
            else:
                inside += chr(value)
        elif op is words.RANGE:
            inside += f"{chr(value[0])}-{chr(value[1])}"
        elif op is words.CATEGORY:
            inside += _CLASSES[value]
    if negated:
        return f"[^{inside}{last.replace('^', '')}{'^' if '^' in last else ''}]" if inside or last else "."
    return f"[{inside}{last[::-1] if last.startswith('^') and not inside else last}]"


def _repeat(low: int, high: Any, inner: Any) -> str:
    body = _sequence(inner)
    if not body:
        return ""
    if len(inner) > 1 or body.endswith(("*", "+", "?", "}")):
        body = f"({body})"
    if (low, high) == (0, 1):
        return body + "?"
    if high is words.MAXREPEAT or int(high) > LONG:
        return body + ("*" if low == 0 else "+" if low == 1 else f"{{{low},}}")
    return f"{body}{{{low},{high}}}"
