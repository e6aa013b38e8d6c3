"""Numbers and dicts as Python and numpy print them, read and never run; lines that look most like a metric's name."""

from __future__ import annotations

import math

import pytest

from autoresearch.core.keys import truth
from autoresearch.core.metrics.signal import nearest_lines, numbers
from autoresearch.runner.metric_lines import object_of


def test_a_dict_of_numpy_2() -> None:
    found = object_of("{'a': np.float64(0.5), 'b': -nan, 'c': inf, 'd': 'x', 'e': None, 'f': [1, [2]], 'g': True}")
    assert found is not None
    assert math.isnan(found.pop("b"))  # type: ignore[arg-type]
    assert found == {"a": 0.5, "c": math.inf, "d": "x", "e": None, "f": [1, [2]], "g": True}


@pytest.mark.parametrize(
    "text",
    [
        "{'a': __import__('os').system('true')}",
        "{'a': open('/etc/passwd')}",
        "{'a': np.float64(open('x'))}",
        "{'a': x}",
        "{'a': 1 + 1}",
        "{'a': os.environ}",
        "{'a': 0.5, 'b': 0.",
        "{'a': <object at 0x7f>}",
        "[1, 2]",
        "{1, 2}",
        "",
        "{" * 5000 + "}" * 5000,
        "{'a': \0}",
    ],
)
def test_what_is_never_run(text: str) -> None:
    assert object_of(text) is None


def test_numbers() -> None:
    found = numbers({"a": 1, "b": True, "c": "0.5", "d": None, "e": [1], "f": 10**400})
    assert found.pop("a") == 1.0
    assert math.isnan(found.pop("d"))
    assert found == {}
    assert numbers({"c": "0.5", "d": "x"}, strings=True) == {"c": 0.5}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *[(True, True), ("on", True), ("Yes", True), (" y ", True), ("1", True)],
        *[(False, False), ("off", False), ("NO", False), ("n", False), ("0", False)],
        *[("maybe", None), ("", None), (1, None), (None, None)],
    ],
)
def test_truth(value: object, said: bool | None) -> None:
    assert truth(value) is said


LOG = [
    "loading 8 shards of gsm8k",
    "epoch 1: train loss 0.9",
    "Eval Pass Rate: 41.0%",
    "pass_at_1 = 0.40",
    "pass_at_1 = 0.41",
    "done in 312 s",
    "",
]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("pass_at_k", "pass_at_1 = 0.41"),
        ("eval/pass_rate", "Eval Pass Rate: 41.0%"),
        ("TRAIN_LOSS", "epoch 1: train loss 0.9"),
    ],
)
def test_the_nearest_comes_first(name: str, first: str) -> None:
    found = nearest_lines([name], LOG)
    assert (found[0], len(found)) == (first, 3)


def test_lines_that_differ_in_numbers_alone_are_one() -> None:
    found = nearest_lines(["accuracy"], [f"acuracy: 0.{n}" for n in range(9)] + ["hello", "bye"])
    assert found == ["acuracy: 0.8", "bye", "hello"] or found == ["acuracy: 0.8", "hello", "bye"]
