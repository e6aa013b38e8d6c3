"""How each trainer goes on from the last checkpoint of a run that was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.trainer import Recipe
from autoresearch.lab.recipes.recipe_of_run import settings_from
from autoresearch.trainers import registry

MARK = "latest_checkpointed_iteration.txt"
VERL = {"trainer": {"default_local_dir": "{}"}}
NEMO_RL = {"grpo": {"seed": 1}, "checkpointing": {"checkpoint_dir": "{}"}}
SLIME = {"save": "{}"}
OPENRLHF = {"ckpt.path": "{}"}
TRL = {"output_dir": "{}", "resume_from_checkpoint": "no"}
AGENTJET = {"ajet": {"experiment_name": "e", "project_name": "p", "trainer_common": {"checkpoint_base_dir": "{}"}}}


def filled(recipe: Any, directory: str) -> Any:
    if isinstance(recipe, dict):
        return {key: filled(value, directory) for key, value in recipe.items()}
    return recipe.format(directory) if isinstance(recipe, str) else recipe


@pytest.mark.parametrize(
    ("trainer", "recipe", "saved", "settings"),
    [
        ("verl", VERL, MARK, {"trainer.default_local_dir": "{}", "trainer.resume_mode": "auto"}),
        ("nemo_rl", NEMO_RL, "step_10", {"checkpointing.checkpoint_dir": "{}"}),
        ("slime", SLIME, MARK, {"load": "{}", "save": "{}"}),
        ("openrlhf", OPENRLHF, "_actor", {"ckpt.path": "{}", "ckpt.load_enable": True}),
        ("trl", TRL, "checkpoint-10", {"output_dir": "{}", "resume_from_checkpoint": "{}/checkpoint-10"}),
        (
            "agentjet",
            AGENTJET,
            f"p/e/{MARK}",
            {"ajet.trainer_common.checkpoint_base_dir": "{}", "ajet.experiment_name": "e"},
        ),
    ],
)
def test_a_run_goes_on_from_what_another_saved(
    tmp_path: Path, trainer: str, recipe: Recipe, saved: str, settings: dict[str, Any]
) -> None:
    one, given = registry.by_name(trainer), filled(recipe, str(tmp_path))
    assert settings_from(one, given) == ({}, "")  # nothing was saved yet
    (tmp_path / saved).mkdir(parents=True)
    assert settings_from(one, given) == (filled(settings, str(tmp_path)), str(tmp_path / saved))


def test_the_last_checkpoint_is_the_last_by_number(tmp_path: Path) -> None:
    for number in (9, 100, 20):
        (tmp_path / f"checkpoint-{number}").mkdir()
    settings, last = settings_from(registry.by_name("trl"), filled(TRL, str(tmp_path)))
    assert settings["resume_from_checkpoint"] == last == str(tmp_path / "checkpoint-100")


@pytest.mark.parametrize(
    ("trainer", "recipe"),
    [
        ("generic", {"output_dir": "/r"}),
        ("tinygrpo", {}),
        ("verl", {}),  # its default is below the worktree, which the next run takes
        ("trl", {"output_dir": "/r"}),  # the script does not read it
        ("slime", {"save": "$SAVE"}),
    ],
)
def test_a_run_that_cannot_be_gone_on_from(trainer: str, recipe: Recipe) -> None:
    assert settings_from(registry.by_name(trainer), recipe) == ({}, "")
