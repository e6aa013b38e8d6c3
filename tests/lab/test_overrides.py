"""Where an override goes, and what is refused because it would not be heard."""

from __future__ import annotations

import pytest

from autoresearch.core.campaign.overrides import flatten
from autoresearch.errors import BlueprintError
from autoresearch.lab.recipes.overrides import Applied, LaunchSettings, inherited, parents, rewritten
from autoresearch.lab.yaml_files import parse_mapping
from autoresearch.trainers import registry

VERL, SLIME, TINY, NEMO = (registry.by_name(name) for name in ("verl", "slime", "tinygrpo", "nemo_rl"))


def test_the_command_wins_over_the_recipe() -> None:
    recipe = {"optim": {"lr": 0.1}, "data": {"seed": 3}}
    launch = LaunchSettings(VERL, recipe, "python -m verl.trainer.main_ppo data.seed=5")
    applied = launch.applied({"optim.lr": 0.2, "data.seed": 6, "new.key": 1, "+added.key": 2})
    assert applied == Applied({"optim.lr": 0.2, "+added.key": 2}, {"data.seed": 6, "new.key": 1}, {})
    assert launch.with_settings(applied.command).endswith("main_ppo data.seed=6 ++new.key=1")
    flag = launch.applied({"--rng": 3}, new_keys=True)  # as the notes may declare the seed
    assert launch.with_settings(flag.command).endswith("main_ppo data.seed=5 --rng 3") and flag.recipe == {}


def test_a_trainer_without_flags_takes_what_its_recipe_has() -> None:
    launch = LaunchSettings(TINY, {"lr": 0.1}, "python -m autoresearch.tinygrpo --conf r.yaml")
    applied = launch.applied({"lr": 1, "kl_coef": 2, "other": 3})
    assert applied == Applied({"lr": 1, "+kl_coef": 2, "other": 3}, {}, {})
    with pytest.raises(BlueprintError, match="the blueprint has no recipe"):
        LaunchSettings(TINY, None, "python -m autoresearch.tinygrpo").applied({"lr": 1})


def test_a_variable_for_a_script_that_reads_one() -> None:
    launch = LaunchSettings(SLIME, None, "bash slime/run.sh")
    own = launch.applied({"$LR": 1e-6, "$NAME": "it's a"}).command
    assert launch.with_settings(own) == """export LR=1e-06; export NAME='it'"'"'s a'; bash slime/run.sh"""
    both = LaunchSettings(TINY, {"lr": 0.1}, "python -m autoresearch.tinygrpo").applied({"lr": 1, "$SEED": 2})
    assert both == Applied({"lr": 1}, {"$SEED": 2}, {})
    whole = LaunchSettings(SLIME, None, "python slime/train.py").with_settings({"$A": True, "lr": 2})
    assert whole == "export A=true; python slime/train.py --lr 2"


@pytest.mark.parametrize(
    ("command", "settings", "code"),
    [
        ("LR=2 bash slime/run.sh; LR=3 bash slime/run.sh", {"$LR": 0.1}, "bad_value"),
        ("bash slime/run.sh", {"lr": 0.1}, "no_place_for_settings"),
        ("X=--use-kl-loss; python slime/train.py $X", {"use_kl_loss": False}, "bad_value"),  # no word takes a flag back
    ],
)
def test_what_would_not_be_heard_is_refused(command: str, settings: dict[str, object], code: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        LaunchSettings(SLIME, None, command).with_settings(settings)
    assert caught.value.code == code


GENERIC = registry.by_name("generic")
PLACES = [  # command, key, value -> command
    ("python t.py --lr 0.1 --batch-size=32 2>&1 | tee log", "batch_size", 64, "--batch-size=64 2>&1 | tee log"),
    ("uv run t.py optim.lr=0.1 +x=2", "optim.lr", 0.2, "uv run t.py optim.lr=0.2 +x=2"),
    ("python -m t fit --set lr=0.1 --set x=2", "lr", 0.2, "fit --set lr=0.2 --set x=2"),
    ("python t.py --cfg-options optim.lr=0.1 x=2", "x", 3, "--cfg-options optim.lr=0.1 x=3"),
    ("bash -c 'python t.py --lr 0.1 --x 1' && echo '--lr 3'", "lr", 0.2, "t.py --lr 0.2 --x 1' && echo '--lr 3'"),
    ("mkdir -p --mode 7 x; torchrun --nproc 8 t.py \\\n  --lr $LR # --lr 9", "lr", 1, "  --lr 1 # --lr 9"),
    ("python t.py --layers 64 64 --lr 0.1", "layers", [1, 2, 3], "python t.py --layers 1 2 3 --lr 0.1"),
    ("python t.py --lr 0.1 --use-kl", "use_kl", False, "python t.py --lr 0.1 "),
    ("LR=0.1 python t.py", "$LR", 0.2, "LR=0.2 python t.py"),
    ("LR=${LR:-0.1}; python t.py --lr $LR", "$LR", 0.2, "export LR=0.2; LR=${LR:-0.1}; python t.py --lr $LR"),
    ("python t.py --lr 0.1", "momentum", 0.9, "python t.py --lr 0.1 --momentum 0.9"),
    ("python t.py --lr 0.1", "shuffle", False, "python t.py --lr 0.1 --no-shuffle"),
]


@pytest.mark.parametrize(("command", "key", "value", "end"), PLACES)
def test_settings_of_a_script_that_nobody_knows(command: str, key: str, value: object, end: str) -> None:
    launch = LaunchSettings(GENERIC, None, command, flags={"--momentum": 0.0, "--shuffle": True})
    applied = launch.applied({key: value})
    assert (applied.recipe, applied.scripts) == ({}, {})
    assert launch.with_settings(applied.command).endswith(end)


def test_the_command_wins_over_a_recipe_whose_keys_the_program_names_too() -> None:
    flags = {"trainer.max_epochs": 10, "seed": None}  # as `--cfg job` of Hydra
    launch = LaunchSettings(GENERIC, {"trainer": {"max_epochs": 5}}, "python t.py trainer.max_epochs=2", flags=flags)
    assert flatten(launch.settings) == {"seed": None, "trainer.max_epochs": 2}


@pytest.mark.parametrize(
    ("command", "key", "end"),
    [
        ("python train.py config/small.py --device=cpu", "--learning_rate", "--device=cpu --learning_rate=0.2"),
        ("python train.py config/small.py", "--learning_rate=", "config/small.py --learning_rate=0.2"),
        ("python train.py --learning_rate=0.1 --x 1", "--learning-rate=", "--learning_rate=0.2 --x 1"),
    ],
)
def test_a_flag_that_nobody_knows_is_passed_on_as_the_command_writes_its_own(command: str, key: str, end: str) -> None:
    launch = LaunchSettings(GENERIC, None, command)
    overrides = {launch.key_of(key): 0.2}  # as a search space spells it
    assert launch.with_settings(launch.applied(overrides).command).endswith(end)


def test_all_that_a_launch_could_vary() -> None:
    script = 'export BS=${BS:-8}\nWD=0.1\npython t.py --lr $LR --wd $WD --bs ${BS} "$@"\n'
    command = "CUDA_VISIBLE_DEVICES=0 LR=0.5 bash run.sh"
    launch = LaunchSettings(GENERIC, {"model": {"width": 3}}, command, {"run.sh": script}, {"--momentum": 0.9})
    found = launch.settings
    assert found == {
        **{"momentum": 0.9, "model": {"width": 3}, "lr": 0.5, "wd": 0.1, "bs": 8},
        **{"$BS": 8, "$WD": 0.1, "$LR": 0.5},
    }
    applied = launch.applied({"model.width": 4, "wd": 0.2, "momentum": 0.8, "$WD": 0.3, "$BS": 9})
    assert (applied.recipe, applied.command) == ({"model.width": 4}, {"$BS": 9})
    line = 'python t.py --lr $LR --wd 0.2 --bs ${BS} "$@" --momentum 0.8'
    assert applied.scripts["run.sh"].splitlines()[1:] == ["WD=0.3", line]


def test_what_stands_in_the_command_wins_over_the_recipe_of_a_script_that_nobody_knows() -> None:
    launch = LaunchSettings(GENERIC, {"lr": 1, "model": {"width": 3}}, "python t.py --config c.yaml --lr 2")
    assert launch.applied({"lr": 5, "model.width": 4}) == Applied({"model.width": 4}, {"lr": 5}, {})
    assert launch.settings == {"lr": 2, "model": {"width": 3}, "config": "c.yaml"}
    with pytest.raises(BlueprintError, match=r"did you mean model\.width"):
        launch.applied({"width": 4})
    assert launch.applied({"+width": 4}).recipe == {"+width": 4}


def test_a_flag_behind_a_script_goes_into_the_script() -> None:
    launch = LaunchSettings(GENERIC, None, "bash run.sh", {"run.sh": "python t.py --lr 1\n"}, {"--momentum": 0.9})
    assert launch.applied({"momentum": 0.5}) == Applied({}, {}, {"run.sh": "python t.py --lr 1 --momentum 0.5\n"})
    launch = LaunchSettings(GENERIC, None, "python t.py -net vgg", flags={"-lr": 0.1, "-net": None})  # pytorch-cifar100
    settings = launch.applied({"lr": 0.3, "net": "resnet"}).command
    assert launch.with_settings(settings) == "python t.py -net resnet -lr 0.3"


def test_an_unknown_key_is_refused_by_a_sentence_that_shows_the_way() -> None:
    launch = LaunchSettings(GENERIC, None, "python t.py --learning-rate 1", flags={"--momentum": 0.9})
    with pytest.raises(BlueprintError, match="did you mean learning-rate") as caught:
        launch.applied({"learning-rat": 2})
    assert "`$NAME` varies a variable" in caught.value.hint
    assert launch.applied({"--momentun": 2}).command == {"--momentun": 2}  # forced


FILES = {
    "base/a.yaml": {"policy": {"lr": 0.1, "sizes": [1, 2]}, "keep": {"x": 1, "y": 2}, "logger": {"on": True}},
    "base/b.yaml": {"defaults": "a.yaml", "policy": {"lr": 0.2}},
    "top.yaml": {"defaults": ["base/b.yaml"], "keep": {"_override_": True, "z": 3}},
}


def test_parents_as_nemo_rl_reads_them() -> None:
    whole = inherited(FILES["top.yaml"], "top.yaml", lambda path: FILES[path])
    assert whole == {"policy": {"lr": 0.2, "sizes": [1, 2]}, "keep": {"z": 3}, "logger": {"on": True}}
    circle = {"a.yaml": {"defaults": "b.yaml"}, "b.yaml": {"defaults": "a.yaml"}}
    with pytest.raises(BlueprintError, match="generations"):
        inherited(circle["a.yaml"], "a.yaml", lambda path: circle[path])


@pytest.mark.parametrize("named", [["ppo_trainer", "_self_"], [{"model": "qwen"}], None, 3, {"a": "b.yaml"}])
def test_what_hydra_calls_defaults_names_no_file(named: object) -> None:
    recipe = {"defaults": named, "a": 1}
    assert parents(recipe) == ()
    assert inherited(recipe, "r.yaml", lambda path: {}) == recipe


def test_a_key_of_a_parent_is_set_in_the_child_in_the_parents_kind() -> None:
    text = "# mine\ndefaults: base/b.yaml\nkeep:\n  z: 3\n"
    whole = inherited(parse_mapping(text.encode(), "c"), "top.yaml", lambda path: FILES[path])
    new = parse_mapping(rewritten(text, whole, {"policy.lr": "0.5", "keep.z": 4}, "c").encode(), "c")
    assert new == {"defaults": "base/b.yaml", "keep": {"z": 4}, "policy": {"lr": 0.5}}
    with pytest.raises(BlueprintError, match="cannot be changed by itself"):
        rewritten(text, whole, {"policy.sizes.0": 5}, "c")
    assert "# mine" in rewritten(text, whole, {"keep.z": 4}, "c")
