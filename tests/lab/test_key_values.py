"""KEY=VALUE words: what each type of value makes of what is typed."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.errors import UsageError
from autoresearch.lab.key_values import ValueType, parse_pairs


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ValueType.TEXT, "0123", "0123"),
        (ValueType.TEXT, "[a]", "[a]"),
        (ValueType.TEXT, "'a: b'", "a: b"),
        (ValueType.ANY, "20m", "20m"),
        (ValueType.ANY, "1200", 1200),
        (ValueType.ANY, "yes", True),
        (ValueType.ANY, "[a, b]", ["a", "b"]),
        (ValueType.ANY, "{A: 1}", {"A": 1}),
        (ValueType.ANY, "why: because", "why: because"),
        (ValueType.SPACE, "lr: [1, 2]", {"lr": [1, 2]}),
        (ValueType.COUNT, "a: b", "a: b"),
        (ValueType.COUNT, "3", 3),
        (ValueType.TEXTS, "a, b", "a, b"),
        (ValueType.TEXTS, "[a, b]", ["a", "b"]),
        (ValueType.TEXTS, "{a}", "{a}"),
        (ValueType.COUNT, "null", None),
    ],
)
def test_a_value_by_its_type(kind: ValueType, text: str, value: Any) -> None:
    assert parse_pairs([f"some_key={text}"], {"some_key": kind}) == {"some_key": value}


def test_without_an_option_the_key_alone_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        parse_pairs(["cuont=3"], {"count": ValueType.COUNT}, option="")
    assert caught.value.message == "'cuont=3': unknown key 'cuont'" and caught.value.hint == "did you mean 'count'?"
