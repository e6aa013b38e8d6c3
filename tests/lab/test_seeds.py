"""How a seed reaches a training: declared, the trainer's own key, a flag of the command, else the variable."""

from __future__ import annotations

import pytest

from autoresearch.core.blueprint.model import Notes
from autoresearch.errors import BlueprintError
from autoresearch.lab.recipes.seed_source import randomness_of
from autoresearch.lab.recipes.seeds import refuse, way_of, with_flag
from autoresearch.trainers import registry

GENERIC = registry.by_name("generic", ())

WAYS = [
    ("python t.py", {}, {}, "variable AUTORESEARCH_SEED", 0),
    ("python t.py", {"seed": 4}, {}, "recipe key seed", 4),
    ("python t.py --seed 3", {}, {}, "flag --seed", 3),
    ("python t.py --random-seed=3", {}, {}, "flag --random-seed", 3),
    ("python t.py --seed 3 --data-seed 4", {}, {}, "variable AUTORESEARCH_SEED", 0),  # which one is nobody's guess
    ("python t.py --seed-everything 3", {}, {}, "variable AUTORESEARCH_SEED", 0),
    ("python t.py", {}, {"seed": "12"}, "variable AUTORESEARCH_SEED", 12),
    ("python t.py", {"seed": 4}, {"seed": "12"}, "recipe key seed", 4),
    ("python t.py", {"train": {"rng": 9}}, {"seed": "train.rng"}, "recipe key train.rng", 9),
    ("python t.py -s 5", {}, {"seed": "-s"}, "flag -s", 5),
    ("python t.py", {}, {"seed": "$RNG", "env": {"RNG": "6"}}, "variable RNG", 6),
    ("python t.py", {}, {"env": {"AUTORESEARCH_SEED": "8"}}, "variable AUTORESEARCH_SEED", 8),
]


@pytest.mark.parametrize(("command", "recipe", "notes", "words", "first"), WAYS)
def test_ways(command: str, recipe: dict[str, object], notes: dict[str, object], words: str, first: int) -> None:
    way = way_of(GENERIC, recipe, command, Notes(**notes))  # type: ignore[arg-type]
    assert (str(way), way.first) == (words, first)


def test_a_named_trainer_has_its_own_key() -> None:
    way = way_of(registry.by_name("verl", ()), {"data": {"seed": 5}}, "python -m verl.trainer.main_ppo", Notes())
    assert (str(way), way.first) == ("recipe key data.seed", 5)


def test_a_lone_run_has_a_seed_where_something_fixes_it() -> None:
    assert way_of(GENERIC, {}, "python t.py", Notes()).fixed is None
    assert way_of(GENERIC, {}, "python t.py --seed 1", Notes()).fixed == 1
    assert way_of(GENERIC, {}, "python t.py", Notes(env={"AUTORESEARCH_SEED": "8"})).fixed == 8
    assert way_of(GENERIC, {}, "python t.py", Notes(seed="always")).fixed is None


@pytest.mark.parametrize(
    ("command", "flag", "then"),
    [
        ("python t.py --seed 3 --lr 3", "--seed", "python t.py --seed 9 --lr 3"),
        ("python t.py --seed=3", "--seed", "python t.py --seed=9"),
        ("cd x && python t.py; echo done", "--rng", "cd x && python t.py --rng 9; echo done"),
    ],
)
def test_another_seed_behind_a_flag(command: str, flag: str, then: str) -> None:
    way = way_of(GENERIC, {}, command, Notes(seed=flag))
    assert with_flag(command, way, 9, GENERIC) == then


def test_a_way_that_leads_nowhere_is_refused() -> None:
    way = way_of(GENERIC, {}, "bash run.sh", Notes(seed="--seed"))
    with pytest.raises(BlueprintError, match="no place for `--seed 0`"):
        refuse(way, "bash run.sh", GENERIC)
    way = way_of(GENERIC, {}, "python t.py", Notes(seed="a.seed"))
    with pytest.raises(BlueprintError, match="the recipe has no whole number there"):
        refuse(way, "python t.py", GENERIC)
    refuse(way_of(GENERIC, {"a": {"seed": 1}}, "python t.py", Notes(seed="a.seed")), "python t.py", GENERIC)


@pytest.mark.parametrize(
    ("source", "known"),
    [
        ("import numpy as np\nrng = np.random.default_rng()", "random"),
        ("import random\nrandom.seed()\nrandom.random()", "random"),
        ("import random, time\nrandom.seed(time.time_ns() % 1000)", "random"),
        ("import torch\nmodel = torch.nn.Linear(3, 1)", "random"),
        ("import random\nx = random.gauss(0, 1)", "random"),
        ("import torch\ntorch.manual_seed(1337)", "fixed"),
        ("import numpy as np\nSEED = 3\nrng = np.random.default_rng(SEED)", "fixed"),
        ("import torch, transformers\nmodel = torch.nn.Linear(3, 1)", "unknown"),  # its Trainer seeds with 42
        ("import random, sys\nrandom.seed(int(sys.argv[1]))", "unknown"),
        ("import random\nrandom.Random(3).random()\nrandom.Random().random()", "unknown"),
        ("import torch\nfit(seed=3)", "unknown"),
        ("print(1)", "unknown"),
        ("def (", "unknown"),
    ],
)
def test_what_a_program_says_of_its_randomness(source: str, known: str) -> None:
    found, why = randomness_of({"train.py": source})
    assert found == known and bool(why) is (known != "unknown")
    with_module = {"train.py": "import data, random\nrandom.random()", "data.py": source}
    assert randomness_of(with_module)[0] == ("random" if source == "print(1)" else known)


def test_what_the_notes_declare_is_no_key_of_the_recipe() -> None:
    for word in ("random", "fixed"):
        assert str(way_of(GENERIC, {"seed": 4}, "python t.py", Notes(seed=word))) == "variable AUTORESEARCH_SEED"
