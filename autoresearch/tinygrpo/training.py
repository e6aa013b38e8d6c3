"""The whole run: validation, GRPO steps, simulated failures, and what is printed and written.

The console has lines in verl's format, the files are JSONL and AgentJet's dict-per-line. Every line is flushed
immediately, and every file is overwritten at the start, so that two runs never mix their lines.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from autoresearch.tinygrpo.grpo import Learner, Loss, make_learner, roll_out, update_policy
from autoresearch.tinygrpo.recipe import Recipe
from autoresearch.tinygrpo.tasks import Bools, Floats

Metrics = dict[str, float]

VALIDATION_CHUNK = 64
"""Tasks that are validated at a time; progress is told after each chunk."""

PASS_AT = (1, 2, 4, 8, 16)

OOM_MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
    "1.13 GiB is free. (simulated by tinygrpo, `fault: oom`; there is no GPU)"
)


class OutOfMemoryError(RuntimeError):
    """Looks like torch's error in a traceback; its message says that it is simulated."""


OutOfMemoryError.__module__ = "torch"


def metric_line(step: int, metrics: Metrics) -> str:
    """verl's console line: `step:3 - actor/kl_loss:0.00042 - ...`, floats with six significant digits."""
    pairs = (f"{key}:{value if isinstance(value, int) else f'{value:.6g}'}" for key, value in metrics.items())
    return " - ".join([f"step:{step}", *pairs])


class Report(NamedTuple):
    """The outputs of one run; a file that the recipe does not name is None."""

    console: TextIO
    validation_file: TextIO | None
    train_file: TextIO | None
    jsonl_file: TextIO | None

    def say(self, line: str) -> None:
        """Print one line on the console and flush it."""
        print(line, file=self.console, flush=True)

    def training(self, step: int, metrics: Metrics) -> None:
        """Write the metrics of one training step to all outputs."""
        self._metrics(step, metrics, self.train_file, metrics)

    def validation(self, step: int, metrics: Metrics, task: str) -> None:
        """Write the metrics of one validation to all outputs."""
        self._metrics(step, metrics, self.validation_file, {**metrics, "target_dataset_name": f"{task}_val"})

    def _metrics(self, step: int, metrics: Metrics, file: TextIO | None, row: Mapping[str, float | str]) -> None:
        """A console line, AgentJet's `str` of a dict (may hold `nan`), and verl's JSON (null for NaN and infinity)."""
        self.say(metric_line(step, metrics))
        data = {key: value if math.isfinite(value) else None for key, value in metrics.items()}
        for output, line in ((file, str(row)), (self.jsonl_file, json.dumps({"step": step, "data": data}))):
            if output is not None:
                print(line, file=output, flush=True)


@contextmanager
def open_report(recipe: Recipe, console: TextIO) -> Iterator[Report]:
    """Open a report's files, emptied, and create their directories; closes the files at the end."""
    with ExitStack() as files:

        def begin(path: str) -> TextIO | None:
            if not path:
                return None
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            return files.enter_context(Path(path).open("w", encoding="utf-8"))

        yield Report(
            console,
            begin(recipe.val_print_to_markdown_file_path),
            begin(recipe.train_print_to_markdown_file_path),
            begin(recipe.metrics_jsonl_path),
        )


def train(recipe: Recipe, report: Report) -> None:
    """Run a recipe from the first to the last line of output.

    Raises RecipeError for a recipe that does not fit the task, FloatingPointError after a line with NaN or infinity
    (`on_nan`), and whatever the fault raises.
    """
    report.say("config " + json.dumps(asdict(recipe)))
    _strike(recipe, 0, report)
    learner = make_learner(recipe)
    last = validate(learner, 0, report) if recipe.val_before_train else {}
    started = time.monotonic()
    stopped_by = "total_steps"
    for step in range(1, recipe.total_steps + 1):
        _strike(recipe, step, report)
        metrics = train_step(learner, step)
        report.training(step, metrics)
        broken = [key for key, value in metrics.items() if not math.isfinite(value)]
        if broken and recipe.on_nan == "raise":
            raise FloatingPointError(f"step {step}: {', '.join(broken)} not finite")
        over_time = 0 < recipe.total_time < time.monotonic() - started
        due = recipe.test_freq > 0 and step % recipe.test_freq == 0
        if due or over_time or step == recipe.total_steps:
            last = validate(learner, step, report)
        if over_time:
            stopped_by = "total_time"
            break
    summary = {
        "stopped_by": stopped_by,
        **last,
        "train_seconds": round(time.monotonic() - started, 2),
        "experiment_name": recipe.experiment_name,
        "task": recipe.task,
        "seed": recipe.seed,
        # Equal hashes mean bit-identical weights.
        "weights_sha256": hashlib.sha256(learner.policy.flat.tobytes()).hexdigest(),
    }
    report.say("FINAL " + json.dumps(summary))


def _strike(recipe: Recipe, step: int, report: Report) -> None:
    """Trigger the recipe's `fault` if this is its step; step 0 is just before the first validation.

    A fault that leaves no other trace is announced on the console first. `nan` and `slow` are in `train_step`.
    """
    if step != recipe.fault_step:
        return
    match recipe.fault:
        case "oom":
            raise OutOfMemoryError(OOM_MESSAGE)
        case "crash":
            raise RuntimeError(f"simulated by tinygrpo, `fault: crash` at step {step}")
        case "kill":
            report.say(f"simulated fault: SIGKILL at step {step}")
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            report.say(f"simulated fault: hang at step {step}")
        case "ignore_term":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            report.say(f"simulated fault: SIGTERM ignored and hang at step {step}")
    while recipe.fault in ("hang", "ignore_term"):
        time.sleep(3600)


def train_step(learner: Learner, step: int) -> Metrics:
    """Sample, update the policy, and return the metrics. Times are in seconds, throughput in tokens per second."""
    recipe = learner.recipe
    began = time.perf_counter()
    batch, rollout_metrics = roll_out(learner)
    sampled = time.perf_counter()
    if recipe.fault == "nan" and step == recipe.fault_step:
        batch.advantages[0] = np.nan
    lr = recipe.lr * min(1.0, step / max(1, recipe.lr_warmup_steps))
    updates = list(update_policy(learner, batch, lr))
    updated = time.perf_counter()
    if recipe.fault != "slow" or step >= recipe.fault_step:
        time.sleep(recipe.step_sleep)
    seconds = time.perf_counter() - began
    return {
        **_actor_metrics(updates, recipe, lr),
        **rollout_metrics,
        "timing_s/gen": sampled - began,
        "timing_s/update_actor": updated - sampled,
        "timing_s/step": seconds,
        "perf/throughput": float(batch.mask.sum()) / seconds,
        "training/global_step": step,
        "training/epoch": step * recipe.batch_size / recipe.train_prompts,
    }


def _actor_metrics(updates: list[tuple[Loss, float]], recipe: Recipe, lr: float) -> Metrics:
    """Means over a step's updates, under verl's names."""

    def mean(values: Iterator[float]) -> float:
        return sum(values) / len(updates)

    return {
        "actor/entropy": mean(loss.entropy for loss, _ in updates),
        "actor/kl_loss": mean(loss.kl for loss, _ in updates),
        "actor/kl_coef": recipe.kl_coef,
        "actor/pg_loss": mean(loss.pg for loss, _ in updates),
        "actor/loss": mean(loss.total for loss, _ in updates),
        "actor/pg_clipfrac": mean(loss.clip_fraction for loss, _ in updates),
        "actor/ppo_kl": mean(loss.ppo_kl for loss, _ in updates),
        "actor/grad_norm": mean(norm for _, norm in updates),
        "actor/lr": lr,
    }


def validate(learner: Learner, step: int, report: Report) -> Metrics:
    """Answer every held-out prompt n times, and report; only the first validation is slow enough to print progress.

    All validations with the same `data_seed` use the same random draws, so that policies are compared under equal
    conditions.
    """
    recipe, prompts = learner.recipe, learner.validation_prompts
    rng = np.random.default_rng([recipe.data_seed, 3])
    rewards, correct = [], []
    for start in range(0, len(prompts), VALIDATION_CHUNK):
        chunk = np.repeat(prompts[start : start + VALIDATION_CHUNK], recipe.val_pass_n, axis=0)
        grades = learner.task.grade(chunk, learner.policy.sample(chunk, recipe.val_temperature, rng))
        correct.append(grades.correct)
        rewards.append(grades.rewards(recipe.format_reward))
        time.sleep(recipe.val_sleep)
        if step == 0:  # so that a monitor can tell a slow first validation from a hang
            done = min(start + VALIDATION_CHUNK, len(prompts))
            report.say(f"validating: {done}/{len(prompts)} tasks")
    shape = (len(prompts), recipe.val_pass_n)
    metrics = validation_metrics(np.concatenate(correct).reshape(shape), np.concatenate(rewards).reshape(shape), step)
    report.validation(step, metrics, recipe.task)
    return metrics


def validation_metrics(correct: Bools, rewards: Floats, step: int) -> Metrics:
    """AgentJet's metrics for correctness (T, n) and rewards (T, n) of T tasks with n answers each."""
    tasks, n = correct.shape
    hits = correct.sum(axis=1)
    metrics: Metrics = {
        "global_steps": step,
        "pass_n": n,
        "total_tasks": tasks,
        "num_all_success_tasks": int((hits == n).sum()),
        f"num_pass_n_tasks(pass@{n})": int((hits > 0).sum()),
    }
    for k in PASS_AT:
        if k <= n:
            metrics[f"task_pass_rate@{k}"] = round(math.fsum(pass_at_k(int(c), n, k) for c in hits) / tasks, 6)
    metrics["mean_reward"] = round(float(rewards.mean()), 6)
    metrics["std_reward"] = round(float(rewards.std()), 6)
    return metrics


def pass_at_k(correct: int, n: int, k: int) -> float:
    """Probability that k answers, drawn without replacement from n with `correct` correct ones, include a correct one.

    1 - C(n - c, k) / C(n, k): the unbiased estimator of Chen et al., "Evaluating Large Language Models Trained on Code"
    (arXiv:2107.03374, 2021), for k <= n. (Using only the first k answers is unbiased too, but noisier.)
    """
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)
