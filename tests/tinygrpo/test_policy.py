"""Sampling draws from the distribution that the loss believes in."""

from __future__ import annotations

import numpy as np
import pytest

from autoresearch.tinygrpo.adam import Adam
from autoresearch.tinygrpo.arrays import log_softmax
from autoresearch.tinygrpo.policy import Policy
from autoresearch.tinygrpo.tasks import Sizes, answer_mask, task_named

SMALL = Sizes(prompt_slots=2, prompt_alphabet=3, answer_slots=3, answer_alphabet=3)


def a_policy(sizes: Sizes = SMALL) -> Policy:
    policy = Policy.at_random(sizes, 8, np.random.default_rng(1))
    policy.weights.w3[:] *= 15
    return policy


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_answers_appear_as_often_as_their_probability(temperature: float) -> None:
    policy, count = a_policy(), 60000
    prompts = np.tile([1, 2], (count, 1))
    answers = policy.sample(prompts, temperature, np.random.default_rng(2))
    kinds, numbers = np.unique(answers, axis=0, return_counts=True)
    logp = log_softmax(policy.forward(prompts[: len(kinds)], kinds)[0] / temperature)
    chosen = np.take_along_axis(logp, kinds[..., None], axis=2)[..., 0]
    expected = np.exp(np.where(answer_mask(kinds, SMALL.end), chosen, 0).sum(axis=1))
    assert len(kinds) > 4
    assert expected.sum() == pytest.approx(1, abs=0.01)
    assert numbers / count == pytest.approx(expected, abs=0.008)


def test_a_cold_policy_always_takes_the_likeliest_token() -> None:
    policy = a_policy()
    prompts = np.tile([1, 2], (50, 1))
    answers = policy.sample(prompts, 1e-4, np.random.default_rng(2))
    assert len(np.unique(answers, axis=0)) == 1
    logits, _ = policy.forward(prompts[:1], answers[:1])
    assert logits[0, 0].argmax() == answers[0, 0]


def test_after_end_there_is_only_end() -> None:
    policy = a_policy()
    answers = policy.sample(np.tile([1, 2], (500, 1)), 1.0, np.random.default_rng(2))
    assert (answers[~answer_mask(answers, SMALL.end)] == SMALL.end).all()
    assert 0 < answer_mask(answers, SMALL.end).mean() < 1


def test_a_token_sees_the_prompt_and_the_tokens_before_it_and_nothing_else() -> None:
    task = task_named("sort")
    policy, rng = a_policy(task.sizes), np.random.default_rng(0)
    prompts = task.prompts(1, rng)
    answers = task.demonstrations(prompts, rng)
    before, _ = policy.forward(prompts, answers)
    changed = answers.copy()
    changed[0, 2] = (changed[0, 2] + 1) % task.sizes.end
    after, _ = policy.forward(prompts, changed)
    assert np.array_equal(before[0, :3], after[0, :3])
    assert (before[0, 3:] != after[0, 3:]).any(axis=1).all()
    other_prompt, _ = policy.forward((prompts + 1) % 8, answers)
    assert (before[0] != other_prompt[0]).any(axis=1).all()


def test_a_copy_does_not_follow_its_original() -> None:
    policy = a_policy()
    frozen = policy.copy()
    policy.weights.w2[:] += 1
    assert not np.array_equal(policy.weights.flat, frozen.weights.flat)


def test_the_first_step_of_adam_is_the_learning_rate() -> None:
    weights = np.zeros(3)
    norm = Adam.for_weights(weights).update(weights, np.array([3.0, -4.0, 0.0]), lr=0.1, max_norm=1.0)
    assert norm == pytest.approx(5.0)  # before clipping
    assert weights == pytest.approx(np.array([-0.1, 0.1, 0.0]))


def test_adam_clips_the_norm_of_the_gradient() -> None:
    adam = Adam.for_weights(np.zeros(2))
    adam.update(np.zeros(2), np.array([3.0, -4.0]), lr=0.1, max_norm=1.0)
    assert adam.first == pytest.approx(np.array([0.06, -0.08]))
    adam = Adam.for_weights(np.zeros(2))
    adam.update(np.zeros(2), np.array([3.0, -4.0]), lr=0.1, max_norm=10.0)
    assert adam.first == pytest.approx(np.array([0.3, -0.4]))
