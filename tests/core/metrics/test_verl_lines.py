"""verl's lines: three generations of values, what they are glued to, and lines that only look like one."""

from __future__ import annotations

import math

import pytest

from autoresearch.core.metrics.signal import VERL_STEP, VERL_VALIDATION, SignalKind, read_step_line, readings
from autoresearch.runner.line_patterns import LinePattern, LineSignal
from autoresearch.runner.text import clean, clean_line

BAR = "Training Progress:   6%|██        | 2/30 [00:01<00:02,  1.03s/it]"
RAY = "\x1b[36m(TaskRunner pid=512)\x1b[0m "
MANY = " - ".join(f"timing_s/part_{i}/mean:np.float64(0.{i:017d})" for i in range(90))


def told(line: str, signal: object = VERL_STEP) -> list[LineSignal]:
    pattern = LinePattern.of(signal)
    return [one for part in line.split("\r") for one in pattern.read(clean(part.encode()))]


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
        ("step:0 - num_pass_n_tasks(pass@4):80 - val-core/a:b/acc:.5", 0, None),
        ("step:2 - actor/a:1 - broken - b:text - c:2", 2, {"actor/a": 1.0, "c": 2.0}),
        ("[FullyAsyncTrainer] step:2 - actor/a:1", 2, {"actor/a": 1.0}),
        (f"{BAR}step:2 - actor/a:1.25", 2, {"actor/a": 1.25}),
        (f"{BAR}{RAY}step:2 - actor/a:1", 2, {"actor/a": 1.0}),
        ("2026-01-02 03:04:05.678 | INFO     | verl.trainer:fit:12 - step:2 - actor/a:1", 2, {"actor/a": 1.0}),
        ("WARNING: 'lr' is deprecated step:2 - actor/a:1", 2, {"actor/a": 1.0}),
        (f"step:3 - actor/lr:1 - actor/kl_loss:0.1{BAR}", 3, {"actor/lr": 1.0, "actor/kl_loss": 0.1}),
        ("step:3 - actor/x:np.float64(0.1)(TaskRunner pid=7) x: 5", 3, {"actor/x": 0.1}),
        ("step:2 - timing_s/gen:1 step:3 - actor/lr:1", 3, {"actor/lr": 1.0}),
        ("step:2 - actor/lr:2 step:3 - actor/lr:1", 3, {"actor/lr": 1.0}),
        ("step:1 - data with space:1 - actor/lr:1e-06", 1, {"data with space": 1.0, "actor/lr": 1e-06}),
    ],
)
def test_a_line_is_read(line: str, step: int, metrics: dict[str, float] | None) -> None:
    reading = read_step_line(clean_line(line))
    assert reading is not None
    assert reading.step == step
    assert dict(reading.metrics) == (metrics or {"num_pass_n_tasks(pass@4)": 80.0, "val-core/a:b/acc": 0.5})


@pytest.mark.parametrize("text", ["nan", "np.float64(nan)", "inf", "-inf", "np.float32(-inf)"])
def test_what_is_not_finite_is_kept(text: str) -> None:
    reading = read_step_line(f"step:3 - actor/grad_norm:{text} - actor/lr:1")
    assert reading is not None
    value = reading.metrics["actor/grad_norm"]
    assert not math.isfinite(value)
    assert math.isnan(value) == ("nan" in text)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("step:1 - actor/pg_loss:0.1", SignalKind.STEP),
        ("step:0 - val-core/x/acc/mean@1:0.5", SignalKind.VALIDATION),
        ("step:20 - global_steps:20 - task_pass_rate@1:0.5 - mean_reward:0.5", SignalKind.VALIDATION),
        ("step:3 - val/test_score/gsm8k:0.4", SignalKind.VALIDATION),
        ("step:20 - actor/pg_loss:0.1 - val-core/x/acc/mean@1:0.5", SignalKind.STEP),
        *(
            (line, None)
            for line in (
                *("step:0 - actor/pg_loss:0.1", "step:5 - timing_s/step:3.1", "step:3", "step:3 - ", ""),
                *("global_step:3 - actor/kl_loss:0.1", "training/global_step:1 - actor/kl_loss:0.1"),
                *("step:1 - the actor/critic pair is trained", "step:1 - actor/kl_loss", "step: 1 - actor/kl_loss:0.1"),
                *("step:1 - eval-free:1 - interval/x:2 - user@host/x:1", "step:1 - val-core/ is printed here"),
                "{'kl_loss_coef': 0.002}",
                # quoted, or shown as a sample
                "Sample: ['solve step:3 - actor/kl_loss:0.1']",
                "Sample: ['it doesn\\'t say step:3 - actor/kl_loss:0.1 - but what?', 'no']",
                '{"text": "INFO step:3 - actor/kl_loss:0.1 - val-core/a/acc@1:0.5"}',
                "`echo step:3 - actor/kl_loss:0.1` prints one",
                "[response] step:3 - actor/kl_loss:0.1 - val-core/a/acc@1:0.5",
                "[prompt] step:3 - actor/kl_loss:0.1",
            )
        ),
    ],
)
def test_the_runner_and_the_readers_agree_on_the_kind(line: str, kind: SignalKind | None) -> None:
    reading = read_step_line(line)
    assert (reading.kind if reading else None) == kind
    assert bool(told(line)) == (kind is SignalKind.STEP)
    validates = kind is not None and ("val" in line or "rate@" in line)
    assert bool(told(line, VERL_VALIDATION)) == validates


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("step:1 - actor/ppo_kl:0.3 - actor/reward_kl_penalty:0.2 - actor/kl_loss:0.1", [(1, 0.1)]),
        ("step:1 - actor/ppo_kl:0.3 - actor/reward_kl_penalty:0.2", [(1, 0.2)]),
        (f"step:1 - {MANY} - actor/kl_loss:np.float64(-6e-06)", [(1, -6e-06)]),
        ("step:1 - actor/lr:1\rstep:2 - actor/kl_loss:0.5\rstep:3 - actor/lr:1", [(1, None), (2, 0.5), (3, None)]),
        ("step:1 - timing_s/gen:1 step:2 - actor/lr:1 - actor/kl_loss:0.5", [(2, 0.5)]),
    ],
)
def test_the_kl_is_that_of_its_own_line(line: str, wanted: list[tuple[int, float | None]]) -> None:
    assert [(one.step, one.kl) for one in told(RAY + line)] == wanted


@pytest.mark.parametrize(
    ("pairs", "diverged"),
    [
        ("actor/pg_loss:nan - actor/lr:1", True),
        ("actor/lr:1 - actor/grad_norm:np.float64(nan)", True),
        (f"{MANY} - actor/ppo_kl:nan", True),
        ("actor/pg_loss:0.1 - response/nanoseconds:3", False),
        ("actor/pg_loss:0.1 - critic/score/std:nan", False),
        ("actor/pg_loss:inf", False),
        ("actor/lr:1 - actor/pg_loss:nanx", False),
    ],
)
def test_a_loss_that_is_no_number(pairs: str, diverged: bool) -> None:
    assert ("nan" in {one.kind for one in told(f"step:9 - actor/x:1 - {pairs}")}) is diverged


@pytest.mark.parametrize("signal", [VERL_STEP, VERL_VALIDATION])
@pytest.mark.parametrize(
    "line",
    [
        "step:1 - " * 4000,
        "]step:1 -" * 4000,
        " step:1 - actor/" * 4000,
        "step:1 - " + "actor/kl_loss:" * 20000,
        "step:1 -" + " " * 300_000,
        "step:1 - " + "x" * 300_000,
        "step:1 - actor/a:1 " + "val-" * 50_000 + "nan" * 50_000,
        ("step:1 - actor/" + "loss" * 40 + ":") * 2000,
    ],
    ids=range(8),
)
def test_odd_lines_end_soon(signal: object, line: str) -> None:
    """A pattern that backtracks would not come back from these within the life of the test run."""
    assert len(told(line, signal)) <= len(line)


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
