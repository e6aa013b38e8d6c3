"""Override sets: equal ideas are recognised, and names say what an idea is."""

from __future__ import annotations

import random
import re

import pytest

from autoresearch.core.campaign.overrides import changed, fingerprint, flatten, plain, sentence, slug, unused
from autoresearch.core.text.session_and_branch_names import SLUG_MAX, slugify

BASE = {"lr": 3e-4, "group_size": 8, "actor": {"optim": {"lr": 1e-3}}, "norm": True, "task": "sort"}

SAME = [
    ({"lr": 1e-3}, {"lr": 0.001}),
    ({"lr": "1e-3"}, {"lr": 0.001}),  # what YAML 1.1 makes of 1e-3
    ({"g": 8}, {"g": 8.0}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": {"b": {"c": 1}}}, {"a.b.c": 1}),
    ({"a": 0.1 + 0.2}, {"a": 0.3}),
    ({"a": [1, 2.0]}, {"a": (1.0, 2)}),
    ({"a": -0.0}, {"a": 0}),
    ({"a": None}, {"a": None}),
]
DIFFERENT = [
    ({"a": 1}, {"a": True}),
    ({"a": 0}, {"a": False}),
    ({"a": "8"}, {"a": 8}),
    ({"a": 1e-3}, {"a": 1.0001e-3}),
    ({"a": [1, 2]}, {"a": [2, 1]}),
    ({"a": None}, {"a": "null"}),
    ({"a": 1}, {"b": 1}),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": "x=1\nb=2"}, {"a": "x=1", "b": 2}),
    ({"a": ["1"]}, {"a": [1]}),
    ({"a": {}}, {}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_ideas_have_equal_fingerprints(one: dict[str, object], other: dict[str, object]) -> None:
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_ideas_have_different_fingerprints(one: dict[str, object], other: dict[str, object]) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_a_key_that_changes_nothing_makes_no_other_idea() -> None:
    assert fingerprint({"lr": "3e-4", "group_size": 8.0}, BASE) == fingerprint({}, BASE)
    assert fingerprint({"lr": 1e-2, "group_size": 8}, BASE) == fingerprint({"lr": 0.01})
    assert changed({"actor.optim.lr": 0.001, "norm": 1}, BASE) == {"norm": 1}


def test_sentences() -> None:
    assert sentence({"lr": 0.003, "group_size": 16}, BASE) == "lr 0.0003 -> 0.003, group_size 8 -> 16"
    assert sentence({"actor.optim.lr": "1e-5"}, BASE) == "lr 0.001 -> 1e-05"
    both = {"actor": {"optim": {"lr": 1e-5}}, "lr": 1}
    assert sentence(both, BASE) == "optim.lr 0.001 -> 1e-05, lr 0.0003 -> 1"
    assert sentence({"new": False, "task": "sort"}, BASE) == "new = false"
    assert sentence({"lr": 0.0003}, BASE) == "changes nothing"
    assert len(sentence({"prompt": "x" * 500})) < 60


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ({"lr": 0.003, "group_size": 16}, "lr-3e-3-group-16"),
        ({"lr": 0.0031623}, "lr-3-1623e-3"),
        ({"temperature": 1.25}, "temperature-1-25"),
        ({"clip_low": 0.2, "clip_high": 0.3}, "clip-low-0-2-clip-high-0-3"),
        ({"entropy_coef": -0.05}, "entropy-neg0-05"),
        ({"norm_adv": True, "agg": "seq-mean"}, "norm-true-agg-seq-mean"),
        ({"a.lr": 1, "b.lr": 2}, "a-lr-1-b-lr-2"),
        ({"steps": 100000000}, "steps-1e8"),
        ({}, "same"),
    ],
)
def test_slugs(overrides: dict[str, object], name: str) -> None:
    assert slug(overrides) == name


@pytest.mark.parametrize("seed", range(5))
def test_slugs_are_slugs_and_differ_where_ideas_do(seed: int) -> None:
    chance = random.Random(seed)
    keys = [f"section.{word}_{chance.randrange(9)}" for word in ("learning", "group", "temperature", "entropy")]
    taken: dict[str, str] = {}
    for _ in range(50):
        idea = {key: round(chance.lognormvariate(0, 3), 4) * chance.choice((-1, 1)) for key in keys}
        name = slug(idea, {}, taken)
        assert len(name) <= SLUG_MAX
        assert slugify(name) == name
        assert name not in taken
        taken[name] = fingerprint(idea)


def test_a_taken_name_gets_a_number() -> None:
    assert unused("lr-1", {"lr-1", "lr-1-2"}) == "lr-1-3"
    long = "x" * SLUG_MAX
    assert re.fullmatch(r"x{38}-2", unused(long, {long}))


def test_flat_and_plain() -> None:
    assert flatten({"a": {"b": 1, "c": {}}, "d": "2E+3"}) == {"a.b": 1, "a.c": {}, "d": 2000.0}
    assert plain("e-3") == "e-3"
    assert plain("1e-3x") == "1e-3x"
    assert plain(["1e-3", "8"]) == [0.001, "8"]
