"""Validation: n answers to each held-out prompt, pass@k, and AgentJet's metric names."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from autoresearch.tinygrpo.arrays import Bools, Floats
from autoresearch.tinygrpo.learner import Learner
from autoresearch.tinygrpo.recipe import Recipe
from autoresearch.tinygrpo.rollout import rewards_of

Metrics = dict[str, float]
Progress = Callable[[int, int], None]

CHUNK = 64
"""Tasks that are validated at a time; progress is told after each chunk."""

PASS_AT = (1, 2, 4, 8, 16)


def pass_at_k(correct: int, n: int, k: int) -> float:
    """Probability that k answers, drawn without replacement from n with `correct` correct ones, include a correct one.

    1 - C(n - c, k) / C(n, k): the unbiased estimator of Chen et al., "Evaluating Large Language Models Trained on Code"
    (arXiv:2107.03374, 2021), for k <= n. (Using only the first k answers is unbiased too, but noisier.)
    """
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def validate(learner: Learner, recipe: Recipe, step: int, progress: Progress) -> Metrics:
    """The validation metrics of the policy; `told(done, total)` is called after every 64 tasks.

    All validations with the same `data_seed` use the same random draws, so that policies are compared under equal
    conditions.
    """
    rng = np.random.default_rng([recipe.data_seed, 3])
    prompts = learner.split.validation
    rewards, correct = [], []
    for start in range(0, len(prompts), CHUNK):
        chunk = np.repeat(prompts[start : start + CHUNK], recipe.val_pass_n, axis=0)
        grades = learner.task.grade(chunk, learner.policy.sample(chunk, recipe.val_temperature, rng))
        correct.append(grades.correct)
        rewards.append(rewards_of(grades, recipe.format_reward))
        time.sleep(recipe.val_sleep)
        progress(min(start + CHUNK, len(prompts)), len(prompts))
    shape = (len(prompts), recipe.val_pass_n)
    return validation_metrics(np.concatenate(correct).reshape(shape), np.concatenate(rewards).reshape(shape), step)


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
            rates = [pass_at_k(int(c), n, k) for c in hits]
            metrics[f"task_pass_rate@{k}"] = round(math.fsum(rates) / tasks, 6)
    metrics["mean_reward"] = round(float(rewards.mean()), 6)
    metrics["std_reward"] = round(float(rewards.std()), 6)
    return metrics
