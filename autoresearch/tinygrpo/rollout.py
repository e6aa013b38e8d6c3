"""One batch of experience: sample a group of answers per prompt, verify them, and compute advantages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoresearch.tinygrpo.arrays import Bools, Floats
from autoresearch.tinygrpo.grpo import Batch, group_advantages, token_logp
from autoresearch.tinygrpo.learner import Learner
from autoresearch.tinygrpo.recipe import Recipe
from autoresearch.tinygrpo.tasks import Grades, answer_mask


@dataclass(frozen=True, slots=True)
class Rollout:
    """The batch for the loss, and rewards (B, G) and correctness (B, G) for the metrics."""

    batch: Batch
    rewards: Floats
    correct: Bools


def rewards_of(grades: Grades, format_reward: float) -> Floats:
    """Rewards (N,): 1 for a correct answer, `format_reward` for a well-formed wrong one, else 0."""
    return np.where(grades.correct, 1.0, np.where(grades.well_formed, format_reward, 0.0))


def roll_out(learner: Learner, recipe: Recipe) -> Rollout:
    """Draw `batch_size` training prompts, sample `group_size` answers to each, and grade them."""
    task, train = learner.task, learner.split.train
    prompts = train[learner.rng.integers(0, len(train), recipe.batch_size)]
    repeated = np.repeat(prompts, recipe.group_size, axis=0)
    answers = learner.policy.sample(repeated, recipe.temperature, learner.rng)
    grades = task.grade(repeated, answers)
    rewards = rewards_of(grades, recipe.format_reward).reshape(len(prompts), recipe.group_size)
    old_logits, _ = learner.policy.forward(repeated, answers)
    ref_logits, _ = learner.reference.forward(repeated, answers)
    batch = Batch(
        prompts=repeated,
        answers=answers,
        mask=answer_mask(answers, task.sizes.end),
        advantages=group_advantages(rewards, recipe.norm_adv_by_std).reshape(-1).astype(old_logits.dtype),
        old_logp=token_logp(old_logits, answers, recipe.temperature),
        ref_logp=token_logp(ref_logits, answers, recipe.temperature),
    )
    return Rollout(batch, rewards, grades.correct.reshape(rewards.shape))


def rollout_metrics(rollout: Rollout, end: int) -> dict[str, float]:
    """Statistics of the answers under verl's names; `end` is the task's END token.

    Score and reward are equal, because the KL is part of the loss and not of the reward.
    """
    rewards, batch = rollout.rewards, rollout.batch
    lengths = batch.mask.sum(axis=1)
    unfinished = batch.mask[:, -1] & (batch.answers[:, -1] != end)
    metrics = {}
    for name in ("score", "rewards"):
        metrics[f"critic/{name}/mean"] = float(rewards.mean())
        metrics[f"critic/{name}/max"] = float(rewards.max())
        metrics[f"critic/{name}/min"] = float(rewards.min())
    return metrics | {
        "critic/advantages/mean": float(batch.advantages.mean()),
        "critic/advantages/max": float(batch.advantages.max()),
        "critic/advantages/min": float(batch.advantages.min()),
        "critic/success_rate": float(rollout.correct.mean()),
        "batch/solve_none": float((~rollout.correct).all(axis=1).mean()),
        "batch/solve_all": float(rollout.correct.all(axis=1).mean()),
        "response_length/mean": float(lengths.mean()),
        "response_length/max": float(lengths.max()),
        "response_length/min": float(lengths.min()),
        "response_length/clip_ratio": float(unfinished.mean()),
    }
