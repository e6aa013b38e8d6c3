"""The last metrics in the tail of a log, for trainers whose lines stand alone and for those whose do not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoresearch.lab.runs.run_status import last_readings

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"


@pytest.mark.parametrize(
    ("name", "trainer", "step", "validation", "metric"),
    [
        ("verl_ok_np2_ray.log", "verl", 3, 0, "actor/kl_loss"),
        ("nemo_grpo.log", "nemo_rl", 2, 2, "train/reward"),
        ("trl_v5_tqdm.log", "trl", 6, 6, "reward"),
        ("slime.log", "slime", 0, 0, "train/critic-value_loss"),
        ("openrlhf.log", "openrlhf", 1, 1, "reward"),
    ],
)
def test_the_last_readings(name: str, trainer: str, step: int, validation: int, metric: str) -> None:
    spec: Any = SimpleNamespace(trainer=trainer, lines=())
    last, evaluated = last_readings(SAMPLES / name, spec)
    assert last is not None
    assert evaluated is not None
    assert (last.step, evaluated.step) == (step, validation)
    assert metric in last.metrics
    assert last_readings(SAMPLES / "none.log", spec) == (None, None)
