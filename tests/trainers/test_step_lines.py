"""The full parse of verl's lines: three generations of values, and lines that only look like one."""

from __future__ import annotations

import math

import pytest

from autoresearch.core.signal import SignalKind
from autoresearch.trainers import step_line
from autoresearch.trainers.verl import read_step_line


@pytest.mark.parametrize(
    ("line", "step", "metrics"),
    [
        ("step:1 - actor/kl_loss:0.000 - actor/ppo_kl:-0.000", 1, {"actor/kl_loss": 0.0, "actor/ppo_kl": 0.0}),
        ("step:1 - actor/kl_loss:4.2e-05 - actor/lr:1e-06", 1, {"actor/kl_loss": 4.2e-05, "actor/lr": 1e-06}),
        (
            "step:12 - actor/pg_loss:np.float64(-0.5) - a:np.int64(3) - b:np.float32(1e-3)",
            12,
            {"actor/pg_loss": -0.5, "a": 3.0, "b": 1e-3},
        ),
        ("step:0 - num_pass_n_tasks(pass@4):80 - x:1", 0, {"num_pass_n_tasks(pass@4)": 80.0, "x": 1.0}),
        ("step:2 - a:1 - broken - b:text - c:2", 2, {"a": 1.0, "c": 2.0}),
        ("[FullyAsyncTrainer] step:2 - a:1", 2, {"a": 1.0}),
        ("Progress:  33%|███▎  | 1/3 [00:01<00:02,  1.03s/it]step:2 - a:1.25", 2, {"a": 1.25}),
        ("0: step:2 - a:1", 2, {"a": 1.0}),
    ],
)
def test_parse(line: str, step: int, metrics: dict[str, float]) -> None:
    assert step_line.parse(line) == (step, metrics)


@pytest.mark.parametrize("text", ["nan", "np.float64(nan)", "inf", "-inf", "np.float32(-inf)"])
def test_what_is_not_finite_is_kept(text: str) -> None:
    parsed = step_line.parse(f"step:3 - actor/grad_norm:{text} - actor/lr:1")
    assert parsed is not None
    value = parsed[1]["actor/grad_norm"]
    assert not math.isfinite(value)
    assert math.isnan(value) == ("nan" in text)


@pytest.mark.parametrize(
    "line",
    [
        "Sample: ['the log said step:3 - val-core/acc:1.0']",
        'print("step:3 - val-core/acc:1.0")',
        "global_step:3 - val-core/acc:1.0",
        "step:3 - nothing here is a number",
        "step:3",
        "step:3 - ",
        "{'kl_loss_coef': 0.002}",
        "",
    ],
)
def test_no_step_line(line: str) -> None:
    assert step_line.parse(line) is None


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("step:1 - actor/pg_loss:0.1", SignalKind.STEP),
        ("step:0 - val-core/x/acc/mean@1:0.5", SignalKind.VALIDATION),
        ("step:20 - global_steps:20 - task_pass_rate@1:0.5 - mean_reward:0.5", SignalKind.VALIDATION),
        ("step:20 - actor/pg_loss:0.1 - val-core/x/acc/mean@1:0.5", SignalKind.STEP),
        ("step:0 - actor/pg_loss:0.1", None),
        ("step:5 - timing_s/step:3.1", None),
    ],
)
def test_kind(line: str, kind: SignalKind | None) -> None:
    reading = read_step_line(line)
    assert (reading.kind if reading else None) == kind
