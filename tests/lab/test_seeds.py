"""How a seed reaches a training: declared, the trainer's own key, a flag of the command, else the variable."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.blueprint.model import Notes
from autoresearch.errors import BlueprintError
from autoresearch.lab.recipes.overrides import LaunchSettings, seed_way_of
from autoresearch.trainers import registry

WAYS = [
    ("python t.py", {}, {}, "variable AUTORESEARCH_SEED", None),
    ("python t.py", {}, {"seed": "always"}, "recipe key always", None),
    *(("python t.py", {"seed": 4}, {"seed": word}, "variable AUTORESEARCH_SEED", None) for word in ("random", "fixed")),
    ("python t.py", {"seed": 4}, {}, "recipe key seed", 4),
    ("python t.py --seed 3", {}, {}, "flag --seed", 3),
    ("python t.py --random-seed=3", {}, {}, "flag --random-seed", 3),
    ("python t.py --seed 3 --data-seed 4", {}, {}, "variable AUTORESEARCH_SEED", None),  # which one is nobody's guess
    ("python t.py", {}, {"seed": "12"}, "variable AUTORESEARCH_SEED", 12),
    ("python t.py", {"train": {"rng": 9}}, {"seed": "train.rng"}, "recipe key train.rng", 9),
    ("python t.py -s 5", {}, {"seed": "-s"}, "flag -s", 5),
    ("python t.py", {}, {"seed": "$RNG", "env": {"RNG": "6"}}, "variable RNG", 6),
    ("python t.py", {}, {"env": {"AUTORESEARCH_SEED": "8"}}, "variable AUTORESEARCH_SEED", 8),
]


def launched(command: str, recipe: dict[str, object] | None = None, trainer: str = "generic") -> LaunchSettings:
    return LaunchSettings(registry.by_name(trainer, ()), recipe or None, command)


@pytest.mark.parametrize(("command", "recipe", "notes", "words", "fixed"), WAYS)
def test_ways(command: str, recipe: dict[str, object], notes: dict[str, Any], words: str, fixed: int | None) -> None:
    way = seed_way_of(launched(command, recipe), recipe, Notes(**notes))
    assert (str(way), way.fixed, way.first) == (words, fixed, fixed or 0)


def test_a_named_trainer_has_its_own_key() -> None:
    way = seed_way_of(launched("python -m verl.trainer.main_ppo", None, "verl"), {"data": {"seed": 5}}, Notes())
    assert (str(way), way.first) == ("recipe key data.seed", 5)
    launch = launched("python -m autoresearch.tinygrpo --conf r.yaml", {"lr": 0.1}, "tinygrpo")
    assert str(seed_way_of(launch, {"lr": 0.1}, Notes())) == "recipe key seed", "which the recipe leaves out"


@pytest.mark.parametrize(
    ("command", "flag", "then"),
    [
        ("python t.py --seed 3 --lr 3", "--seed", "python t.py --seed 9 --lr 3"),
        ("cd x && python t.py; echo done", "--rng", "cd x && python t.py --rng 9; echo done"),
        ("python t.py -s 5", "-s", "python t.py -s 5 -s 9"),
    ],
)
def test_another_seed_behind_a_flag(command: str, flag: str, then: str) -> None:
    launch = launched(command)
    applied = launch.check({seed_way_of(launch, {}, Notes(seed=flag)).name: 9})
    assert launch.with_settings(applied.command) == then


def test_a_way_that_leads_nowhere_is_refused() -> None:
    for launch, note, says in (
        (launched("bash run.sh"), "--seed", "no place for --seed 0"),
        (launched("python t.py"), "a.seed", r"a\.seed is no .*flag"),
    ):
        with pytest.raises(BlueprintError, match=says):
            launch.check({seed_way_of(launch, {}, Notes(seed=note)).name: 0})
    launched("python t.py", {"a": {"seed": 1}}).check({"a.seed": 0})
