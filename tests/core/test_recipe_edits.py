"""Overrides: kinds are kept, unknown keys are refused with near ones, the recipe given is never changed."""

from __future__ import annotations

import copy
import math

import pytest

from autoresearch.core.campaign.recipe_edits import ABSENT, RecipeChange, apply_overrides, diff_recipes
from autoresearch.errors import BlueprintError

RECIPE: dict[str, object] = {
    "optim": {"lr": 0.001, "warmup": 10, "betas": [0.9, 0.999], "nesterov": False, "text_lr": "1e-5"},
    "data.train": {"path": "/d", "shuffle": True},
    "stages": [{"steps": 5}, {"steps": 7}],
    "name": "base",
    "resume": None,
    7: {"x": 1},  # type: ignore[dict-item]
}


@pytest.mark.parametrize(
    ("key", "value", "becomes"),
    [
        ("optim.lr", 0.5, 0.5),
        ("optim.lr", "3e-4", 3e-4),
        ("optim.lr", 1, 1.0),
        ("optim.lr", "inf", math.inf),
        ("optim.lr", None, None),
        ("optim.lr", "null", None),
        ("optim.warmup", "20", 20),
        ("optim.warmup", 8.0, 8),
        ("optim.warmup", 0.5, 0.5),
        ("optim.nesterov", True, True),
        ("optim.nesterov", "Yes", True),
        ("optim.text_lr", 3e-4, 3e-4),
        ("optim.text_lr", "2e-5", "2e-5"),
        ("optim.betas", [0.8, 0.9], [0.8, 0.9]),
        ("optim.betas", (0.8, 0.9), [0.8, 0.9]),
        ("optim.betas.1", "0.5", 0.5),
        ("optim.betas.-1", 0.5, 0.5),
        ("stages.1.steps", 9, 9),
        ("data.train.path", "/e", "/e"),
        ("data.train.shuffle", "no", False),
        ("name", "7", "7"),
        ("name", 7, 7),
        ("name", "", ""),
        ("name", "true", "true"),
        ("resume", "0.5", 0.5),
        ("resume", "path/x", "path/x"),
        ("resume", "1_000", "1_000"),
        ("resume", {"a": 1}, {"a": 1}),
        ("7.x", 2, 2),
    ],
)
def test_a_value_takes_the_kind_of_the_one_it_replaces(key: str, value: object, becomes: object) -> None:
    before = copy.deepcopy(RECIPE)
    changed = apply_overrides(RECIPE, {key: value})
    assert before == RECIPE
    differing = diff_recipes(RECIPE, changed)
    assert [c.new for c in differing] == ([becomes] if not isinstance(becomes, list) else becomes)
    assert all(type(c.new) is type(becomes) for c in differing if not isinstance(becomes, list))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("optim.lr", "fast"),
        ("optim.lr", True),
        ("optim.lr", [1]),
        ("optim.warmup", "1_0"),
        ("optim.nesterov", 2),
        ("optim.nesterov", "maybe"),
        ("optim.betas", "0.9,0.8"),
        ("optim.betas", {"a": 1}),
        ("optim", 3),
        ("stages.0", "x"),
    ],
)
def test_a_kind_that_cannot_be_had(key: str, value: object) -> None:
    with pytest.raises(BlueprintError, match=rf"{key} wants") as caught:
        apply_overrides(RECIPE, {key: value})
    assert caught.value.code == "bad_value"


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("optim.lrr", "optim.lr"),
        ("lr", "optim.lr"),
        ("Optim.lr", "optim.lr"),
        ("optim.nestrov", "optim.nesterov"),
        ("stages.2.steps", "2 items"),
        ("stages.x.steps", "2 items"),
        ("optim.lr.max", "optim.lr"),
        ("zzz", "optim, data.train, stages"),
    ],
)
def test_an_unknown_key_names_near_ones(key: str, near: str) -> None:
    with pytest.raises(BlueprintError, match="the recipe has no key") as caught:
        apply_overrides(RECIPE, {key: 1})
    assert caught.value.code == "unknown_key"
    assert near in caught.value.hint


@pytest.mark.parametrize("key", ["", ".", "optim.", ".lr", "optim..lr"])
def test_no_key_at_all(key: str) -> None:
    with pytest.raises(BlueprintError, match="is no key"):
        apply_overrides(RECIPE, {f"+{key}": 1})


def test_a_new_key_where_it_is_meant() -> None:
    changed = apply_overrides(RECIPE, {"+optim.clip": "0.5", "+new.deep.key": True})
    assert changed["optim"] == {**RECIPE["optim"], "clip": 0.5}  # type: ignore[dict-item]
    assert changed["new"] == {"deep": {"key": True}}
    assert apply_overrides({}, {"+a.b": 1}) == {"a": {"b": 1}}
    for key in ("+optim.lr.max", "+stages.5"):
        with pytest.raises(BlueprintError):
            apply_overrides(RECIPE, {key: 1})


def test_a_group_is_merged_and_checked() -> None:
    changed = apply_overrides(RECIPE, {"optim": {"lr": "0.1", "warmup": 3}})
    assert [str(c) for c in diff_recipes(RECIPE, changed)] == ["optim.lr: 0.001 -> 0.1", "optim.warmup: 10 -> 3"]
    with pytest.raises(BlueprintError, match=r"no key optim\.typo"):
        apply_overrides(RECIPE, {"optim": {"typo": 1}})


def test_what_differs() -> None:
    a = {"same": 1, "number": 1, "truth": 1, "nan": math.nan, "list": [1, {"x": 2}], "short": [1], "gone": None}
    b = {"same": 1, "number": 1.0, "truth": True, "nan": math.nan, "list": [1, {"x": 3}], "short": [1, 2]}
    b["new"] = "n" * 99
    found = diff_recipes(a, b)
    assert found[:-1] == (
        RecipeChange("truth", 1, True),
        RecipeChange("list.1.x", 2, 3),
        RecipeChange("short", [1], [1, 2]),
        RecipeChange("gone", None, ABSENT),
    )
    assert str(found[0]) == "truth: 1 -> true"
    assert str(found[3]) == "gone: null -> (absent)"
    assert str(found[4]).startswith("new: (absent) -> 'nnn")
    assert len(str(found[4])) < 110
