"""Which metric belongs to training, which to validation, and which is the KL."""

from __future__ import annotations

import pytest

from autoresearch.core.metrics.signal import readings


@pytest.mark.parametrize(
    ("metrics", "wanted"),
    [
        ({"actor/pg_loss": 0.1}, [("step", {"actor/pg_loss"})]),
        ({"val-core/a": 0.1, "timing_s/testing": 3.0}, [("validation", {"val-core/a", "timing_s/testing"})]),
        (
            {"actor/pg_loss": 0.1, "val-core/a": 0.5, "training/epoch": 1.0},
            [("step", {"actor/pg_loss", "training/epoch"}), ("validation", {"val-core/a"})],
        ),
        (
            {"critic/score/mean": 0.1, "global_steps": 2.0, "task_pass_rate@1": 0.5, "mean_reward": 0.5},
            [("step", {"critic/score/mean"}), ("validation", {"global_steps", "task_pass_rate@1", "mean_reward"})],
        ),
        (
            {"global_steps": 2.0, "pass_n": 4.0, "task_pass_rate@1": 0.5, "mean_reward": 0.5},
            [("validation", {"global_steps", "pass_n", "task_pass_rate@1", "mean_reward"})],
        ),
        ({"eval_loss": 0.1, "eval_reward": 0.2, "epoch": 1.0}, [("validation", {"eval_loss", "eval_reward", "epoch"})]),
        ({"value": 0.1, "evaluations": 3.0}, [("step", {"value", "evaluations"})]),
        ({}, []),
    ],
)
def test_one_line_is_one_or_two_readings(metrics: dict[str, float], wanted: list[tuple[str, set[str]]]) -> None:
    found = readings(3, metrics)
    assert [(r.kind.value, set(r.metrics)) for r in found] == wanted
    assert all(r.step == 3 for r in found)
