"""The state of a run: data, base model, policy, optimiser and random number generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoresearch.tinygrpo.adam import Adam
from autoresearch.tinygrpo.arrays import Floats, Ints, log_softmax, one_hot
from autoresearch.tinygrpo.grpo import token_weights
from autoresearch.tinygrpo.policy import Policy
from autoresearch.tinygrpo.recipe import Recipe
from autoresearch.tinygrpo.tasks import Split, Task, answer_mask, split_prompts, task_named

SFT_BATCH = 64
SFT_LR = 3e-3
SFT_GRAD_CLIP = 1.0

@dataclass(frozen=True, slots=True)
class Learner:
    """A run's state. Training changes `policy`, `adam` and `rng` in place; `reference` is the frozen base model."""

    task: Task
    split: Split
    policy: Policy
    reference: Policy
    adam: Adam
    rng: np.random.Generator


def make_learner(recipe: Recipe) -> Learner:
    """Make data and base model from `data_seed`, and all later random numbers from `seed`.

    Raises RecipeError if the task has too few prompts.
    """
    task = task_named(recipe.task)
    for_data, for_base = (np.random.default_rng([recipe.data_seed, stream]) for stream in (1, 2))
    split = split_prompts(task, recipe.train_prompts, recipe.val_tasks, for_data)
    reference = make_base_model(task, split.train, recipe, for_base)
    policy = reference.copy()
    adam = Adam.for_weights(policy.weights.flat)
    return Learner(task, split, policy, reference, adam, np.random.default_rng([recipe.seed, 4]))


def make_base_model(task: Task, prompts: Ints, recipe: Recipe, rng: np.random.Generator) -> Policy:
    """A policy trained for `sft_steps` on noisy answers to the training prompts."""
    policy = Policy.at_random(task.sizes, recipe.hidden, rng)
    adam = Adam.for_weights(policy.weights.flat)
    for _ in range(recipe.sft_steps):
        chosen = prompts[rng.integers(0, len(prompts), SFT_BATCH)]
        answers = noisy_answers(task, chosen, recipe.sft_noise, rng)
        logits, seen = policy.forward(chosen, answers)
        gradient = policy.backward(seen, cross_entropy_gradient(logits, answers, task.sizes.end))
        adam.update(policy.weights.flat, gradient, SFT_LR, SFT_GRAD_CLIP)
    return policy


def noisy_answers(task: Task, prompts: Ints, noise: float, rng: np.random.Generator) -> Ints:
    """Correct answers with each token replaced by a random one with probability `noise`, and END after END."""
    answers = task.demonstrations(prompts, rng)
    replaced = rng.random(answers.shape) < noise
    answers = np.where(replaced, rng.integers(0, task.sizes.answer_alphabet, answers.shape), answers)
    return np.where(answer_mask(answers, task.sizes.end), answers, task.sizes.end)


def cross_entropy_gradient(logits: Floats, answers: Ints, end: int) -> Floats:
    """Gradient (N, L, V) of the mean negative log-likelihood of the answers' tokens."""
    weights = token_weights(answer_mask(answers, end), "token-mean").astype(logits.dtype)
    chosen = one_hot(answers, logits.shape[-1], logits.dtype)
    return weights[..., None] * (np.exp(log_softmax(logits)) - chosen)
