"""What may be asked of every trainer, whether it knows an answer or not."""

from __future__ import annotations

import pytest

from autoresearch.core.run.trainer import Recipe
from autoresearch.trainers import ask, registry

NEMO, VERL, TINY = (registry.by_name(name) for name in ("nemo_rl", "verl", "tinygrpo"))
LIMITED: Recipe = {"checkpointing": {"checkpoint_must_save_by": "00:03:00:00"}, "sft": {"seed": 1}}


def test_those_who_do_not_know() -> None:
    recipe: Recipe = {"seed": 3}
    assert TINY.settings(recipe, "x a.b=c") is recipe
    assert ask.findings(TINY, recipe, "x", 60.0) == ()
    assert (TINY.time_limit(recipe), ask.tighter(TINY, recipe, 60.0)) == (None, 60.0)
    assert (TINY.seed_key_in(recipe), TINY.resumes(recipe), TINY.gpus(recipe)) == ("seed", (), None)
    assert (TINY.recording(recipe, "/r"), TINY.arguments({"a": 1})) == ({}, ())


def test_those_who_do() -> None:
    whole = VERL.settings({}, "python -m verl.trainer.main_ppo trainer.nnodes=2 trainer.default_local_dir=/c")
    assert VERL.gpus(whole) == 16
    assert VERL.resumes(whole) == ("/c/latest_checkpointed_iteration.txt",)
    assert VERL.arguments({"trainer.nnodes": 2}) == ("++trainer.nnodes=2",)
    assert NEMO.seed_key_in(LIMITED) == "sft.seed"
    job = "ray job submit --no-wait -- python -m verl.trainer.main_ppo trainer.nnodes=2"
    assert {f.code for f in ask.findings(VERL, {}, job)} == {"ray_job_no_wait", "ray_job_unnamed"}


@pytest.mark.parametrize(
    ("max_s", "tighter", "warned"),
    [(86400.0, 10800.0 + ask.SAVE_S, False), (11000.0, 11000.0, False), (10800.0, 10800.0, True), (60.0, 60.0, True)],
)
def test_the_tighter_limit(max_s: float, tighter: float, warned: bool) -> None:
    assert ask.tighter(NEMO, LIMITED, max_s) == tighter
    assert ("ended_before_it_saves" in {f.code for f in ask.findings(NEMO, LIMITED, "x", max_s)}) is warned
