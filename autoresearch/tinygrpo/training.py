"""The whole run: data, base model, validation, GRPO steps."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from autoresearch.tinygrpo import faults
from autoresearch.tinygrpo.grpo import Batch, Loss, grpo_loss
from autoresearch.tinygrpo.learner import Learner, make_learner
from autoresearch.tinygrpo.recipe import Recipe
from autoresearch.tinygrpo.report import OutputFiles
from autoresearch.tinygrpo.rollout import roll_out, rollout_metrics
from autoresearch.tinygrpo.validation import Metrics, validate


def train(recipe: Recipe, report: OutputFiles) -> None:
    """Run a recipe from the first to the last line of output.

    Raises RecipeError for a recipe that does not fit the task, FloatingPointError after a line with NaN or infinity
    (`on_nan`), and whatever the fault raises.
    """
    report.config()
    faults.strike(recipe, 0, report.say)
    learner = make_learner(recipe)
    last = _validate_now(learner, recipe, report, 0) if recipe.val_before_train else {}
    started = time.monotonic()
    stopped_by = "total_steps"
    for step in range(1, recipe.total_steps + 1):
        faults.strike(recipe, step, report.say)
        metrics = train_step(learner, recipe, step)
        report.training(step, metrics)
        _refuse_non_finite(metrics, recipe, step)
        over_time = 0 < recipe.total_time < time.monotonic() - started
        due = recipe.test_freq > 0 and step % recipe.test_freq == 0
        if due or over_time or step == recipe.total_steps:
            last = _validate_now(learner, recipe, report, step)
        if over_time:
            stopped_by = "total_time"
            break
    seconds = round(time.monotonic() - started, 2)
    report.final({"stopped_by": stopped_by, **last, "train_seconds": seconds, **_identity(learner, recipe)})


def _identity(learner: Learner, recipe: Recipe) -> dict[str, object]:
    """Names, seed and a hash of the trained weights; equal hashes mean bit-identical weights."""
    weights = hashlib.sha256(learner.policy.weights.flat.tobytes()).hexdigest()
    named = {"experiment_name": recipe.experiment_name, "task": recipe.task, "seed": recipe.seed}
    return {**named, "weights_sha256": weights}


def train_step(learner: Learner, recipe: Recipe, step: int) -> Metrics:
    """Sample, update the policy, and return the metrics. Times are in seconds, throughput in tokens per second."""
    began = time.perf_counter()
    rollout = roll_out(learner, recipe)
    sampled = time.perf_counter()
    batch = _poisoned(rollout.batch) if faults.poisons(recipe, step) else rollout.batch
    lr = recipe.lr * min(1.0, step / max(1, recipe.lr_warmup_steps))
    updates = list(_updates(learner, batch, recipe, lr))
    updated = time.perf_counter()
    time.sleep(faults.seconds_of_sleep(recipe, step))
    seconds = time.perf_counter() - began
    return {
        **_actor_metrics(updates, recipe, lr),
        **rollout_metrics(rollout, learner.task.sizes.end),
        "timing_s/gen": sampled - began,
        "timing_s/update_actor": updated - sampled,
        "timing_s/step": seconds,
        "perf/throughput": float(batch.mask.sum()) / seconds,
        "training/global_step": step,
        "training/epoch": step * recipe.batch_size / recipe.train_prompts,
    }


def _updates(learner: Learner, batch: Batch, recipe: Recipe, lr: float) -> Iterator[tuple[Loss, float]]:
    """Perform one optimiser update per mini-batch; yields its loss and the gradient's norm."""
    for _ in range(recipe.ppo_epochs):
        for rows in np.array_split(learner.rng.permutation(len(batch.answers)), recipe.mini_batches):
            part = batch.part(rows)
            logits, seen = learner.policy.forward(part.prompts, part.answers)
            loss = grpo_loss(logits, part, recipe)
            gradient = learner.policy.backward(seen, loss.d_logits)
            yield loss, learner.adam.update(learner.policy.weights.flat, gradient, lr, recipe.grad_clip)


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


def _poisoned(batch: Batch) -> Batch:
    advantages = batch.advantages.copy()
    advantages[0] = np.nan
    return replace(batch, advantages=advantages)


def _refuse_non_finite(metrics: Metrics, recipe: Recipe, step: int) -> None:
    broken = [key for key, value in metrics.items() if not math.isfinite(value)]
    if broken and recipe.on_nan == "raise":
        raise FloatingPointError(f"step {step}: {', '.join(broken)} not finite")


def _validate_now(learner: Learner, recipe: Recipe, report: OutputFiles, step: int) -> Metrics:
    """Validate and report; only the first validation prints progress, as the others are fast."""

    def silent(done: int, total: int) -> None:
        pass

    told = report.validation_progress if step == 0 else silent
    metrics = validate(learner, recipe, step, told)
    report.validation(step, metrics)
    return metrics
