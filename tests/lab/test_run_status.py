"""The last metrics in the end of a log, for trainers whose lines stand alone and for those whose do not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoresearch.core.run.limits import nap
from autoresearch.core.run.spec import RunState
from autoresearch.lab.runs.run_status import LiveReadings, RunStatus

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
def test_the_last_readings(tmp_path: Path, name: str, trainer: str, step: int, validation: int, metric: str) -> None:
    spec: Any = SimpleNamespace(trainer=trainer, lines=(), objective=None, metric_keys=())
    whole = (SAMPLES / name).read_bytes()
    for size in (997, len(whole)):  # piece by piece, and at once
        log = tmp_path / f"{size}.log"
        readings = LiveReadings(log, spec)
        for n in range(0, len(whole), size):
            with log.open("ab") as file:
                file.write(whole[n : n + size])
            readings.update(once=n + size >= len(whole))
        assert readings.step is not None and readings.validation is not None
        assert (readings.step.step, readings.validation.step) == (step, validation)
        assert metric in readings.step.metrics
    missing = LiveReadings(SAMPLES / "none.log", spec)
    missing.update()
    assert (missing.step, missing.validation) == (None, None)


def test_a_limit_that_has_passed_is_not_waited_for() -> None:
    def pause(left_s: float, first_step_left_s: float | None) -> float:
        now = RunStatus(RunState.RUNNING, 1300.0, left_s, first_step_left_s)
        return nap(6, until_limit_s=now.nearest_limit_s + 1.0)

    assert pause(7200.0, 60.0) == 61.0
    assert pause(7200.0, 0.0) == 960.0  # an engine that boots holds the first-step clock: no report every second
    assert pause(100.0, 0.0) == 101.0
    assert pause(0.0, None) == 960.0  # being ended: that event wakes
