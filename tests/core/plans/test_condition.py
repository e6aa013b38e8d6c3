"""Conditions over what a stage came to: what they mean, what is not known, and where a broken one is broken."""

from __future__ import annotations

import math

import pytest

from autoresearch.core.plans.condition import MOST_CHARACTERS, ConditionError, parse

FACTS = {
    "best": 0.5, "baseline": 0.4, "delta": 0.1, "noise": 0.02, "kept": 2.0, "confirmed": 0.0, "crashed": 1.0,
    "attempted": 4.0, "hours": math.nan, "value(lr-high)": 0.45, "delta(lr-high)": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("best >= baseline + 0.02", True),
        ("best > baseline + 0.2", False),
        ("best==0.5", True),
        ("best != 0.5", False),
        ("confirmed", False),
        ("not confirmed", True),
        ("kept", True),
        ("kept and not confirmed", True),
        ("not kept or confirmed >= 1", False),
        ("not not kept", True),
        ("delta > 2 * noise", True),
        ("delta > (2 + 4) * noise", False),
        ("2 + 4 * noise < 3", True),
        ("best - baseline - delta < 1e-9", True),
        ("crashed / attempted > .2 and kept > 1", True),
        ("-best < -0.4", True),
        ("+best > 0", True),
        ("1 > kept or best > 0.4 and baseline > 0.3", True),  # `and` binds closer
        ("(1 < kept or best > 0.4) and baseline > 0.5", False),
        ("value(lr-high) < best", True),
        ("value( lr-high ) > 0.46", False),
    ],
)
def test_what_a_condition_means(text: str, holds: bool) -> None:
    assert parse(text).holds(FACTS) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("gpu_hours > 1", None),  # nobody measured it
        ("hours > 1", None),  # NaN is no number
        ("delta(lr-high)", None),
        ("not delta(lr-high)", None),
        ("value(never-ran) > 0", None),
        ("hours > 1 or kept", True),  # Kleene: what is known is enough
        ("hours > 1 and confirmed", False),
        ("hours > 1 and kept", None),
        ("hours > 1 or confirmed", None),
        ("best / confirmed > 1", None),  # a division by zero
        ("1e308 * 1e308 * kept > 1", None),
    ],
)
def test_what_is_not_known_decides_nothing(text: str, holds: bool | None) -> None:
    assert parse(text).holds(FACTS) is holds


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("bset > 1", 0, "did you mean 'best'"),
        ("best > ", 7, "expected a number"),
        ("best >= baselin + 1", 8, "did you mean 'baseline'"),
        ("(best > 1", 9, "closing bracket"),
        ("best > 1)", 8, "expected `and`, `or` or the end, found ')'"),
        ("best > 1 kept", 9, "found 'kept'"),
        ("0.1 < best < 0.5", 11, "a < b and b < c"),
        ("(kept > 1) + 1 > 0", 6, "needs numbers"),
        ("best > not kept", 7, "expected a number"),
        ("best > 1; kept", 8, "means nothing here"),
        ("__import__('os')", 0, "is no word"),
        ("best.real > 1", 4, "means nothing here"),
        ("best > 1..2", 7, "means nothing here"),
        ("3 > 2", 0, "asks for nothing"),
        ("", 0, "expected a number"),
        ("not", 3, "expected a number"),
        ("value > 1", 0, "write `value(slug-of-an-idea)`"),
        ("best(lr-high) > 1", 0, "no word about an idea"),
        ("value(LR) > 1", 0, "write `value(slug-of-an-idea)`"),
        ("(" * 40 + "best" + ")" * 40, 31, "more than 30"),
        ("best > 1 " + "or best > 1 " * 200, MOST_CHARACTERS, "longer than"),
    ],
)
def test_a_broken_condition_says_where(text: str, position: int, words: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse(text)
    assert caught.value.position == position
    assert words in str(caught.value) and f"character {position + 1}" in str(caught.value)


def test_it_tells_what_it_asks_for() -> None:
    found = parse("kept and delta(lr-high) > 2 * noise or kept > 3 and value(b2) > 0")
    assert found.words == ("kept", "delta(lr-high)", "noise", "value(b2)")
    assert found.slugs == ("lr-high", "b2")
