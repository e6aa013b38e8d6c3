"""Whole runs as processes: what is printed and written, repeatability, every fault."""

from __future__ import annotations

import ast
import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

Start = Callable[..., "subprocess.Popen[str]"]

TINY = (
    "task=sort",
    "hidden=16",
    "sft_steps=100",  # enough for a few rewards: without any, what the policy learns is the rounding of this processor
    "batch_size=8",
    "train_prompts=100",
    "total_steps=4",
    "val_tasks=70",
)

STEP_LINE = re.compile(r"step:(\d+) - (.*)")


@pytest.fixture(name="start")
def start_tiny(start: Start) -> Start:
    """Starts the trainer on a tiny recipe: four steps, half a second."""
    return lambda *overrides: start(*TINY, *overrides)


def steps_of(out: str, key: str) -> list[int]:
    """The steps of the lines that hold a key."""
    return [int(m[1]) for m in map(STEP_LINE.fullmatch, out.splitlines()) if m and f"{key}:" in m[2]]


def metrics_of(out: str, step: int, key: str) -> dict[str, float]:
    """The metrics of the one line of a step that holds a key."""
    for match in map(STEP_LINE.fullmatch, out.splitlines()):
        if match and int(match[1]) == step and f"{key}:" in match[2]:
            return {k: float(v) for k, _, v in (part.rpartition(":") for part in match[2].split(" - "))}
    raise AssertionError(f"no line of step {step} with {key} in:\n{out}")


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def read_until(process: subprocess.Popen[str], start_of_line: str) -> list[str]:
    """All lines up to the first that starts so."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(start_of_line):
            return lines
    raise AssertionError(f"the trainer ended before {start_of_line!r}: {lines}")


def test_a_run_from_first_to_last_line(start: Start, tmp_path: Path) -> None:
    val, train, jsonl = (tmp_path / "out" / name for name in ("val.md", "train.md", "metrics.jsonl"))
    code, out, err = ended(
        start(
            "test_freq=3",
            f"val_print_to_markdown_file_path={val}",
            f"train_print_to_markdown_file_path={train}",
            f"metrics_jsonl_path={jsonl}",
        )
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert json.loads(lines[0].removeprefix("config "))["metrics_jsonl_path"] == str(jsonl)
    assert lines[1:3] == ["validating: 64/70 tasks", "validating: 70/70 tasks"]
    assert lines[3].startswith(
        "step:0 - global_steps:0 - pass_n:8 - total_tasks:70 - num_all_success_tasks:0 - num_pass_n"
    )
    assert lines[4].startswith("step:1 - actor/entropy:")
    assert out.count("validating:") == 2
    assert steps_of(out, "actor/kl_loss") == [1, 2, 3, 4]
    assert steps_of(out, "task_pass_rate@1") == [0, 3, 4]
    final = json.loads(lines[-1].removeprefix("FINAL "))
    assert (final["stopped_by"], final["global_steps"]) == ("total_steps", 4)

    assert [ast.literal_eval(line)["global_steps"] for line in val.read_text().splitlines()] == [0, 3, 4]
    in_train = [ast.literal_eval(line) for line in train.read_text().splitlines()]
    assert [metrics["training/global_step"] for metrics in in_train] == [1, 2, 3, 4]
    records = [json.loads(line) for line in jsonl.read_text().splitlines()]
    assert [record["step"] for record in records] == [0, 1, 2, 3, 3, 4, 4]
    for step, key in ((0, "task_pass_rate@8"), (2, "actor/kl_loss"), (4, "critic/rewards/mean")):
        (value,) = [r["data"][key] for r in records if r["step"] == step and key in r["data"]]
        assert metrics_of(out, step, key)[key] == pytest.approx(value, rel=1e-5)


def test_the_first_step_is_on_policy_and_next_to_the_reference(start: Start) -> None:
    _, out, _ = ended(start("mini_batches=1", "val_before_train=false", "lr=0.05"))
    first, last = metrics_of(out, 1, "actor/kl_loss"), metrics_of(out, 4, "actor/kl_loss")
    assert first["actor/pg_clipfrac"] == 0
    assert first["actor/kl_loss"] == pytest.approx(0, abs=1e-6)
    assert first["actor/ppo_kl"] == pytest.approx(0, abs=1e-6)
    assert last["actor/kl_loss"] > 1e-4
    assert first["critic/advantages/mean"] == pytest.approx(0, abs=1e-6)
    assert first["actor/lr"] == pytest.approx(0.05 / 5)
    assert steps_of(out, "task_pass_rate@1") == [4]


def without_times(out: str) -> str:
    return re.sub(r"(timing_s/\w+|perf/throughput):\S+|\"train_seconds\": \S+", "", out)


def test_equal_seeds_give_equal_bits_and_other_seeds_do_not(start: Start) -> None:
    runs = [ended(start(f"seed={seed}")) for seed in (7, 7, 8)]
    first, again, other = (without_times(out) for _, out, _ in runs)
    assert first == again
    hashes = [json.loads(out.splitlines()[-1].removeprefix("FINAL "))["weights_sha256"] for _, out, _ in runs]
    assert hashes[0] == hashes[1] != hashes[2]
    assert metrics_of(first, 0, "pass_n") == metrics_of(other, 0, "pass_n")  # the base model is the same


def test_total_time_stops_after_a_step_and_validates(start: Start) -> None:
    code, out, _ = ended(start("total_time=0.000001"))
    assert code == 0
    assert steps_of(out, "actor/kl_loss") == [1]
    assert steps_of(out, "task_pass_rate@1") == [0, 1]
    assert '"stopped_by": "total_time"' in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("overrides", "code", "steps", "says"),
    [
        (("fault=oom", "fault_step=3"), 1, [1, 2], r"torch.OutOfMemoryError: CUDA out of memory. .* by tinygrpo"),
        (("fault=crash", "fault_step=2"), 1, [1], "RuntimeError: simulated by tinygrpo, `fault: crash` at step 2"),
        (("fault=crash", "fault_step=0"), 1, [], "RuntimeError"),
        (("fault=nan", "fault_step=2", "on_nan=continue"), 0, [1, 2, 3, 4], ""),
        (("lr=1000", "lr_warmup_steps=0", "kl_coef=0.1", "total_steps=50"), 1, None, "FloatingPointError: step"),
        (("fault=kill", "fault_step=2"), -signal.SIGKILL, [1], ""),
    ],
)
def test_how_a_fault_ends_it(
    start: Start, overrides: tuple[str, ...], code: int, steps: list[int] | None, says: str
) -> None:
    ended_with, out, err = ended(start(*overrides))
    assert ended_with == code and re.match(says, (err.splitlines() or [""])[-1])
    assert steps is None or steps_of(out, "actor/kl_loss") == steps
    assert ("Traceback (most recent call last):" in err) is bool(says)
    assert steps != [] or "validating" not in out, "a fault at step 0 strikes before the first validation"
    if code == 0:
        after = metrics_of(out, 4, "actor/kl_loss")["actor/kl_loss"]
        assert after != after


def test_nan_is_printed_and_then_raised(start: Start, tmp_path: Path) -> None:
    jsonl = tmp_path / "metrics.jsonl"
    code, out, err = ended(start("fault=nan", "fault_step=2", f"metrics_jsonl_path={jsonl}"))
    assert code == 1
    assert steps_of(out, "actor/kl_loss") == [1, 2]
    broken = metrics_of(out, 2, "actor/kl_loss")
    assert all(broken[key] != broken[key] for key in ("actor/pg_loss", "actor/grad_norm"))
    assert err.splitlines()[-1].startswith("FloatingPointError: step 2: actor/")
    assert json.loads(jsonl.read_text().splitlines()[-1])["data"]["actor/pg_loss"] is None


def test_hang_stays_after_its_last_flushed_line_and_dies_of_sigterm(start: Start) -> None:
    process = start("fault=hang", "fault_step=3")
    lines = read_until(process, "simulated fault: hang")
    assert steps_of("".join(lines), "actor/kl_loss") == [1, 2]
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    process.terminate()
    assert process.wait(timeout=300) == -signal.SIGTERM


def test_ignore_term_outlives_sigterm(start: Start) -> None:
    process = start("fault=ignore_term", "fault_step=1")
    read_until(process, "simulated fault: SIGTERM ignored")
    process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    process.kill()
    assert process.wait(timeout=300) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("overrides", "steps"),
    [(("fault=slow", "fault_step=3", "step_sleep=0.1"), (3, 4)), (("step_sleep=0.1",), (1, 2, 3, 4))],
)
def test_steps_that_are_slow(start: Start, overrides: tuple[str, ...], steps: tuple[int, ...]) -> None:
    _, out, _ = ended(start(*overrides))
    assert all(metrics_of(out, step, "actor/kl_loss")["timing_s/step"] >= 0.1 for step in steps)
