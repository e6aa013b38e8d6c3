"""The search space: how many points, which, in what order; each fault of a declaration is one sentence."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest

from autoresearch.core.campaign.space import Range, need_grid, read_space
from autoresearch.errors import UsageError

LR = {"low": 1e-4, "high": 1e-1, "log": True}


def refusal(data: object) -> UsageError:
    with pytest.raises(UsageError) as caught:
        need_grid(read_space(data, "space.yaml"))
    assert caught.value.code == "bad_space"
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "a space maps recipe keys"),
        ([1], "a space maps recipe keys"),
        ({}, "names no key"),
        ({"lr": 0.1}, "space.yaml: lr: 0.1 is neither a range nor a list"),
        ({"lr": []}, "the list of choices is empty"),
        ({"lr": [0.001, "1e-3"]}, "0.001 stands twice"),
        ({"lr": [1, math.nan]}, "nan is no value"),
        ({"lr": {"min": 1, "high": 2}}, "`min` is no word of a range"),
        ({"lr": {"optim": {"low": 1}}}, "`optim` is no word of a range"),
        ({"lr": {"low": 1}}, "the range has no `high`"),
        ({"lr": {"low": "a", "high": 2}}, '`low` is "a", no number'),
        ({"lr": {"low": True, "high": 2}}, "`low` is true, no number"),
        ({"lr": {"low": 0.1, "high": math.inf}}, "`high` is inf"),
        ({"lr": {"low": 2, "high": 2}}, "`low` 2 is not below `high` 2"),
        ({"lr": {"low": 0, "high": 2, "log": True}}, "`log` needs `low` above 0"),
        ({"lr": {"low": 1, "high": 2, "log": "yes"}}, "`log` is"),
        ({"lr": {"low": 0, "high": 1, "step": 0}}, "`step` 0 makes no second value"),
        ({"lr": {"low": 0, "high": 1, "step": 2}}, "`step` 2 makes no second value"),
        ({"lr": {**LR, "step": 0.1}}, "`step` stands beside `log`"),
        ({"lr": {"low": 0, "high": 1, "step": 0.1, "points": 3}}, "`step` stands beside `points`"),
        ({"lr": {**LR, "points": 1}}, "`points` is 1"),
        ({"lr": LR}, "lr: a grid cannot cover a continuous range"),
        ({"lr": [1]}, "one point only"),
        ({"a": [1], "b": [2]}, "one point only"),
        ({"a": {"low": 1, "high": 1_000_000}}, "the grid has 1,000,000 points"),
        ({k: list(range(10)) for k in "abcdef"}, "the grid has 1,000,000 points"),
    ],
)
def test_a_fault_is_one_sentence(data: object, says: str) -> None:
    assert says in refusal(data).message


def test_a_foreign_word_is_answered_with_ours() -> None:
    assert "{low: 1e-4," in refusal({"lr": {"min": 1, "high": 2}}).hint
    assert "dots" in refusal({"lr": {"optim": {"low": 1}}}).hint


def test_how_many_points() -> None:
    def size(**data: object) -> float:
        return read_space(data).size

    assert size(a=[1, 2, 3], b=["x", "y"], c=[0]) == 6
    assert size(a={"low": 1, "high": 16}) == 16
    assert size(a={"low": 8, "high": 64, "step": 8}) == 8
    assert size(a={"low": 0.5, "high": 1.5, "step": 0.25}) == 5
    assert size(a={"low": 0, "high": 1, "step": 0.1}) == 11
    assert size(a=LR, b=[1, 2]) == math.inf
    assert size(a={**LR, "points": 4}) == math.inf, "points are for a grid alone"


def test_the_grid_in_the_order_of_the_file() -> None:
    space = read_space({"b": [2, 1], "a": {"low": 0.0, "high": 1.0, "step": 0.5}, "c": ["x"]})
    need_grid(space)
    assert [tuple(p.values()) for p in space.grid()] == list(itertools.product([2, 1], [0.0, 0.5, 1.0], ["x"]))
    assert list(next(space.grid())) == ["b", "a", "c"]
    assert space.grid_size == 6


def test_grid_values_are_those_a_person_would_write() -> None:
    def values(spec: dict[str, object]) -> list[object]:
        return [point["a"] for point in read_space({"a": spec}).grid()]

    assert values({"low": "1e-4", "high": "1e-1", "log": True, "points": 4}) == [1e-4, 1e-3, 1e-2, 1e-1]
    assert values({"low": 0.1, "high": 0.75, "step": 0.1}) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert values({"low": 0, "high": 1, "points": 3}) == [0, 1], "whole numbers stay whole, and none stands twice"
    assert values({"low": 0.0, "high": 1, "points": 3}) == [0.0, 0.5, 1.0]
    assert values({"low": 1, "high": 100, "log": True, "points": 3}) == [1, 10, 100]
    assert all(isinstance(v, int) for v in values({"low": 1, "high": 100, "log": True, "points": 3}))


RANGES: list[Any] = [
    LR,
    {"low": 1e-4, "high": 3e-4, "log": True},
    {"low": 1.2345e-4, "high": 1.2399e-2, "log": True},
    {"low": 0.12345, "high": 0.98765},
    {"low": -0.05, "high": 0.3},
    {"low": 0.95, "high": 0.999},
    {"low": 0.5, "high": 1.5, "step": 0.25},
    {"low": 1, "high": 9},
    {"low": 8, "high": 64, "step": 8},
    {"low": 1, "high": 1000, "log": True},
    ["a", None, True, [1, 2]],
]


@pytest.mark.parametrize("spec", RANGES, ids=str)
def test_what_is_drawn_lies_in_the_space(spec: Any) -> None:
    space, chance = read_space({"a": spec}), random.Random(0)
    drawn = [space.at([share]) for share in (0.0, 1 - 2**-53, *(chance.random() for _ in range(500)))]
    for point in drawn:
        assert space.point_in(point) == point
    assert len({str(point) for point in drawn}) >= min(space.size, 25)
    if "low" in spec:
        numbers = [float(str(p["a"])) for p in drawn]
        assert min(numbers) >= spec["low"]
        assert max(numbers) <= spec["high"]


def test_whole_numbers_in_a_logarithm_have_their_share_at_the_ends() -> None:
    space = read_space({"a": {"low": 1, "high": 4, "log": True}})
    drawn = [space.at([n / 1000])["a"] for n in range(1000)]
    assert [drawn.count(n) for n in (1, 2, 3, 4)] == [500, 233, 153, 114], "log 3 : log 5/3 : log 7/5 : log 9/7"


def test_what_a_recipe_says_of_the_space() -> None:
    space = read_space({"actor.lr": LR, "g": [4, 8]})
    assert space.point_in({"actor": {"lr": "1e-3"}, "g": 8.0, "other": 1}) == {"actor.lr": 0.001, "g": 8.0}
    assert space.point_in({"actor.lr": 1.0, "g": 8}) is None
    assert space.point_in({"actor.lr": 0.01, "g": 5}) is None
    assert space.point_in({"g": 4}) is None
    assert not Range("a", 0, 10, step=2, whole=True).holds(3)
    assert not Range("a", 0, 10, whole=True).holds(True)
