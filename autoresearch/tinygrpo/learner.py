"""The state of a run: data, base model, policy, optimiser and random number generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoresearch.tinygrpo.adam import Adam
from autoresearch.tinygrpo.base_model import make_base_model
from autoresearch.tinygrpo.policy import Policy
from autoresearch.tinygrpo.recipe import Recipe
from autoresearch.tinygrpo.tasks import Split, Task, split_prompts, task_named


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
