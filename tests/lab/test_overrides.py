"""Where an override goes, and what is refused because it would not be heard."""

from __future__ import annotations

import pytest

from autoresearch.errors import BlueprintError
from autoresearch.lab.recipes.overrides import LaunchSettings, rewritten
from autoresearch.lab.recipes.recipe_parents import inherited, parents
from autoresearch.lab.yaml_files import parse_mapping
from autoresearch.trainers import registry

VERL, SLIME, TINY, NEMO = (registry.by_name(name) for name in ("verl", "slime", "tinygrpo", "nemo_rl"))


def test_the_command_wins_over_the_recipe() -> None:
    recipe = {"optim": {"lr": 0.1}, "data": {"seed": 3}}
    launch = LaunchSettings(VERL, recipe, "python -m verl.trainer.main_ppo data.seed=5")
    inside, behind = launch.split({"optim.lr": 0.2, "data.seed": 6, "new.key": 1, "+added.key": 2})
    assert inside == {"optim.lr": 0.2, "+added.key": 2}
    assert behind == {"data.seed": 6, "new.key": 1}
    assert launch.with_settings(behind).endswith("data.seed=5 ++data.seed=6 ++new.key=1")


def test_a_trainer_without_flags_takes_what_its_recipe_has() -> None:
    launch = LaunchSettings(TINY, {"lr": 0.1}, "python -m autoresearch.tinygrpo --conf r.yaml")
    assert launch.split({"lr": 1, "kl_coef": 2, "other": 3}) == ({"lr": 1, "+kl_coef": 2, "other": 3}, {})
    with pytest.raises(BlueprintError, match="the blueprint has no recipe"):
        LaunchSettings(TINY, None, "python -m autoresearch.tinygrpo").split({"lr": 1})


def test_a_variable_for_a_script_that_reads_one() -> None:
    launch = LaunchSettings(SLIME, None, "bash slime/run.sh")
    inside, behind = launch.split({"$LR": 1e-6, "$NAME": "it's a"})
    assert (inside, behind) == ({}, {"$LR": 1e-6, "$NAME": "it's a"})
    assert launch.with_settings(behind) == """export LR=1e-06; export NAME='it'"'"'s a'; bash slime/run.sh"""
    both = LaunchSettings(TINY, {"lr": 0.1}, "python -m autoresearch.tinygrpo").split({"lr": 1, "$SEED": 2})
    assert both == ({"lr": 1}, {"$SEED": 2})
    whole = LaunchSettings(SLIME, None, "python slime/train.py").with_settings({"$A": True, "lr": 2})
    assert whole == "export A=true; python slime/train.py --lr 2"


@pytest.mark.parametrize(
    ("command", "settings", "code"),
    [
        ("LR=2 bash slime/run.sh", {"$LR": 0.1}, "bad_value"),
        ("bash slime/run.sh", {"lr": 0.1}, "no_place_for_settings"),
        ("python slime/train.py --use-kl-loss", {"use_kl_loss": False}, "bad_value"),  # no word takes a flag back
    ],
)
def test_what_would_not_be_heard_is_refused(command: str, settings: dict[str, object], code: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        LaunchSettings(SLIME, None, command).with_settings(settings)
    assert caught.value.code == code


def test_a_flag_that_is_off_may_stay_off() -> None:
    assert (
        LaunchSettings(SLIME, None, "python slime/train.py")
        .with_settings({"use_kl_loss": False, "lr": 1e-6})
        .endswith("--lr 1e-06")
    )


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
