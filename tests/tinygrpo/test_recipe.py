"""What a recipe may say, and the sentence that a bad one gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autoresearch.tinygrpo.__main__ import main
from autoresearch.tinygrpo.recipe import RULES, Recipe, RecipeError, read_recipe

REPOSITORY = Path(__file__).parents[2]


def recipe_of(text: str, folder: Path) -> Recipe:
    path = folder / "recipe.yaml"
    path.write_text(text)
    return read_recipe(path)


def test_a_file_sets_keys_and_an_override_wins(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("task: sort\nlr: 0.01\nexperiment_name: 2026\nval_before_train: false\n")
    recipe = read_recipe(path, ["lr=0.02", "experiment_name=again"])
    assert recipe == Recipe(task="sort", lr=0.02, experiment_name="again", val_before_train=False)


@pytest.mark.parametrize("text", ["1e-3", "0.001", "1.0e-3", "'0.001'"])
def test_numbers_may_be_written_as_people_write_them(text: str, tmp_path: Path) -> None:
    recipe = recipe_of(f"lr: {text}\nkl_coef: 1\n", tmp_path)
    assert (recipe.lr, recipe.kl_coef, type(recipe.kl_coef)) == (0.001, 1.0, float)


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file_is_all_defaults(text: str, tmp_path: Path) -> None:
    assert recipe_of(text, tmp_path) == Recipe() == read_recipe(None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "seed: 1\n\nkl_loss_coef: 0.1\n",
            "recipe.yaml:3: unknown key 'kl_loss_coef'; the nearest valid key is 'kl_coef'.",
        ),
        (
            "seed: 1\ntotal_step: 5\n",
            "recipe.yaml:2: unknown key 'total_step'; the nearest valid key is 'total_steps'.",
        ),
        ("lr: 0\n", "recipe.yaml:1: 'lr' must be a number above 0, not 0."),
        ("lr: fast\n", "recipe.yaml:1: 'lr' must be a number above 0, not 'fast'."),
        ("lr: .nan\n", "recipe.yaml:1: 'lr' must be a number above 0, not nan."),
        ("lr: [0.1]\n", "recipe.yaml:1: 'lr' must be a number above 0, not [0.1]."),
        ("seed: 1.5\n", "recipe.yaml:1: 'seed' must be a whole number at least 0, not 1.5."),
        ("seed: true\n", "recipe.yaml:1: 'seed' must be a whole number at least 0, not True."),
        ("group_size: 1\n", "recipe.yaml:1: 'group_size' must be a whole number at least 2, not 1."),
        (
            "sft_noise: 1.5\n",
            "recipe.yaml:1: 'sft_noise' must be a number at least 0 and at most 1, not 1.5.",
        ),
        ("val_before_train: 1\n", "recipe.yaml:1: 'val_before_train' must be true or false, not 1."),
        ("task: chess\n", "recipe.yaml:1: 'task' must be one of countdown, sort, not 'chess'."),
        ("lr: 0.1\nlr: 0.2\n", "recipe.yaml:2: key 'lr' is given twice."),
        ("- lr\n", "recipe.yaml:1: a recipe is a list of 'key: value' lines."),
        ("lr: {\n", "recipe.yaml: not valid YAML: "),
        ("mini_batches: 500\n", "'mini_batches' is 500, but batch_size x group_size is only 256."),
        ("fault: slow\n", "'fault: slow' needs 'step_sleep' above 0."),
    ],
)
def test_a_bad_recipe_gets_one_clear_sentence(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=re.escape(message)) as caught:
        recipe_of(text, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("lr", "--set: 'lr' is not of the form key=value."),
        ("lr=", "--set: 'lr' must be a number above 0, not ''."),
        ("lr=[", "--set: 'lr' must be a number above 0, not '['."),
        ("kl=1", "--set: unknown key 'kl'; the nearest valid key is 'kl_coef'."),
    ],
)
def test_a_bad_override_gets_one_clear_sentence(word: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read_recipe(None, [word])
    assert str(caught.value) == message


def test_an_unusable_recipe_ends_with_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--conf", str(tmp_path / "missing.yaml")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"tinygrpo: {tmp_path}/missing.yaml: cannot read the recipe: No such file or directory.\n"


@pytest.mark.parametrize("name", ["quickstart", "campaign", "countdown-full"])
def test_the_shipped_recipes_are_valid(name: str) -> None:
    recipe = read_recipe(REPOSITORY / f"blueprints/recipes/{name}.yaml")
    assert recipe.experiment_name == name
    assert recipe.fault == "none"


def test_keys_prints_a_row_for_each_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--keys"]) == 0
    table = capsys.readouterr().out
    assert len(table.splitlines()) == 2 + len(RULES)
    assert all(f"\n| `{key}` | " in table for key in RULES)
