"""Numbers and dicts as Python and numpy print them: read, never run."""

from __future__ import annotations

import math

import pytest

from autoresearch.core.metrics.python_values import numbers, truth
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
    assert (found.pop("a"), found.pop("f")) == (1.0, math.inf)
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
