"""The base model: a policy after short supervised training on demonstrations with wrong tokens.

GRPO improves what a policy already does sometimes, so it needs a start that is often, but not always, wrong. The share
of wrong tokens (`sft_noise`) and the number of steps (`sft_steps`) set how good the start is. A frozen copy is the
reference of the KL.
"""

from __future__ import annotations

import numpy as np

from autoresearch.tinygrpo.adam import Adam
from autoresearch.tinygrpo.arrays import Floats, Ints, log_softmax, one_hot
from autoresearch.tinygrpo.grpo import token_weights
from autoresearch.tinygrpo.policy import Policy
from autoresearch.tinygrpo.recipe import Recipe
from autoresearch.tinygrpo.tasks import Task, answer_mask

SFT_BATCH = 64
SFT_LR = 3e-3
SFT_GRAD_CLIP = 1.0


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
