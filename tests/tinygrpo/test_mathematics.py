"""The mathematics: gradients against finite differences in float64, estimators by hand, sampling, Adam."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from autoresearch.tinygrpo.grpo import (
    Adam,
    Batch,
    Policy,
    cross_entropy_gradient,
    group_advantages,
    grpo_loss,
    log_softmax,
    token_logp,
    token_weights,
)
from autoresearch.tinygrpo.recipe import LOSS_AGGREGATIONS, Recipe
from autoresearch.tinygrpo.tasks import TASKS_BY_NAME, Bools, Floats, Sizes, Task, answer_mask

SORT, COUNTDOWN = TASKS_BY_NAME["sort"], TASKS_BY_NAME["countdown"]
STEP = 1e-6
TOLERANCE = 1e-8


def a_policy(sizes: Sizes, rng: np.random.Generator) -> Policy:
    policy = Policy.at_random(sizes, 12, rng, dtype=np.float64)
    policy.w3[:] *= 10  # far from uniform, so that no term is close to zero
    return policy


def a_batch(policy: Policy, task: Task, temperature: float, rng: np.random.Generator) -> Batch:
    """Answers of all lengths, ratios on both sides of both bounds, advantages of both signs."""
    prompts = task.prompts(40, rng)
    answers = policy.sample(prompts, 1.0, rng)
    reference = a_policy(task.sizes, rng)
    logp = token_logp(policy.forward(prompts, answers)[0], answers, temperature)
    return Batch(
        prompts=prompts,
        answers=answers,
        mask=answer_mask(answers, task.sizes.end),
        advantages=rng.normal(size=len(prompts)),
        old_logp=logp + rng.normal(0, 0.4, logp.shape),
        ref_logp=token_logp(reference.forward(prompts, answers)[0], answers, temperature),
    )


def worst_error(policy: Policy, loss: Callable[[], float], gradient: Floats, rng: np.random.Generator) -> float:
    """Largest difference to finite differences over 150 weights that matter, at least 10 of every part."""
    parts = Policy(policy.sizes, policy.hidden, np.arange(policy.flat.size, dtype=np.float64))
    weights = policy.flat
    chosen: list[int] = []
    for name in ("prompt", "answer", "position", "w2", "b2", "w3", "b3"):
        indices = getattr(parts, name).reshape(-1).astype(int)
        alive = indices[gradient[indices] != 0]
        assert len(alive) >= 7, f"no gradient reaches {name}"
        chosen += [int(i) for i in rng.choice(alive, min(25, len(alive)), replace=False)]
    worst = 0.0
    for index in chosen:
        before = weights[index]
        weights[index] = before + STEP
        above = loss()
        weights[index] = before - STEP
        below = loss()
        weights[index] = before
        worst = max(worst, abs((above - below) / (2 * STEP) - gradient[index]))
    return worst


def token_losses_by_hand(logits: Floats, batch: Batch, recipe: Recipe) -> Floats:
    """The formula of the paper, written once more and without a mask."""
    logp_all = log_softmax(logits / recipe.temperature)
    logp = np.take_along_axis(logp_all, batch.answers[..., None], axis=-1)[..., 0]
    ratio = np.exp(logp - batch.old_logp)
    advantage = np.broadcast_to(batch.advantages[:, None], ratio.shape)
    bounded = np.minimum(np.maximum(ratio, 1 - recipe.clip_low), 1 + recipe.clip_high)
    surrogate = np.where(advantage * ratio < advantage * bounded, advantage * ratio, advantage * bounded)
    kl = np.exp(batch.ref_logp - logp) - (batch.ref_logp - logp) - 1
    entropy = -np.sum(np.exp(logp_all) * logp_all, axis=-1)
    return np.asarray(-surrogate + recipe.kl_coef * kl - recipe.entropy_coef * entropy)


def aggregate_by_hand(values: Floats, mask: Bools, loss_agg: str) -> float:
    answers = [row[kept] for row, kept in zip(values, mask, strict=True)]
    if loss_agg == "token-mean":
        return float(np.concatenate(answers).mean())
    return float(np.mean([answer.mean() for answer in answers]))


@pytest.mark.parametrize("task", [SORT, COUNTDOWN], ids=lambda task: task.name)
@pytest.mark.parametrize("loss_agg", LOSS_AGGREGATIONS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_gradient_of_the_whole_loss(task: Task, loss_agg: str, temperature: float) -> None:
    rng = np.random.default_rng(3)
    recipe = Recipe(kl_coef=0.3, entropy_coef=0.2, loss_agg=loss_agg, temperature=temperature)
    policy = a_policy(task.sizes, rng)
    batch = a_batch(policy, task, temperature, rng)
    logits, seen = policy.forward(batch.prompts, batch.answers)
    gradient = policy.backward(seen, grpo_loss(logits, batch, recipe).d_logits)

    def loss() -> float:
        values = token_losses_by_hand(policy.forward(batch.prompts, batch.answers)[0], batch, recipe)
        return aggregate_by_hand(values, batch.mask, loss_agg)

    assert grpo_loss(logits, batch, recipe).total == pytest.approx(loss(), abs=1e-12)
    assert worst_error(policy, loss, gradient, rng) < TOLERANCE


@pytest.mark.parametrize(
    ("advantage", "log_ratio", "moves"),
    [
        (1.0, 0.5, False),
        (1.0, -0.5, True),
        (-1.0, 0.5, True),
        (-1.0, -0.5, False),
        (1.0, 0.2, True),
    ],
)
def test_clipping_stops_only_what_already_went_far_enough(advantage: float, log_ratio: float, moves: bool) -> None:
    """Ratio 1.65 is above 1.28, 0.61 below 0.8; 1.22 and 0.82 are within."""
    sizes = SORT.sizes
    answers = np.full((1, sizes.answer_slots), sizes.end)
    logits = np.zeros((1, sizes.answer_slots, sizes.answer_alphabet))
    logp = token_logp(logits, answers, 1.0)
    prompts = np.zeros((1, sizes.prompt_slots), dtype=np.int64)
    mask = answer_mask(answers, sizes.end)
    batch = Batch(prompts, answers, mask, np.array([advantage]), logp - log_ratio, logp)
    loss = grpo_loss(logits, batch, Recipe(kl_coef=0.0))
    assert bool(np.any(loss.d_logits)) is moves
    assert loss.clip_fraction == (0.0 if moves else 1.0)


def test_what_follows_end_changes_neither_loss_nor_gradient_even_when_it_would_overflow() -> None:
    rng = np.random.default_rng(5)
    policy, task, recipe = a_policy(SORT.sizes, rng), SORT, Recipe(kl_coef=0.3, entropy_coef=0.2)
    batch = a_batch(policy, task, 1.0, rng)
    wild = Batch(
        batch.prompts,
        batch.answers,
        batch.mask,
        batch.advantages,
        np.where(batch.mask, batch.old_logp, -1e4),
        np.where(batch.mask, batch.ref_logp, 1e4),
    )
    logits, _ = policy.forward(batch.prompts, batch.answers)
    calm_loss, wild_loss = grpo_loss(logits, batch, recipe), grpo_loss(logits, wild, recipe)
    assert not batch.mask.all()
    assert wild_loss.total == calm_loss.total
    assert np.array_equal(wild_loss.d_logits, calm_loss.d_logits)


@pytest.mark.parametrize("name", TASKS_BY_NAME)
def test_the_gradient_of_the_supervised_loss(name: str) -> None:
    rng = np.random.default_rng(4)
    task = TASKS_BY_NAME[name]
    policy = a_policy(task.sizes, rng)
    prompts = task.prompts(20, rng)
    answers = task.demonstrations(prompts, rng)
    mask = answer_mask(answers, task.sizes.end)
    logits, seen = policy.forward(prompts, answers)
    gradient = policy.backward(seen, cross_entropy_gradient(logits, answers, task.sizes.end))

    def loss() -> float:
        return float(-token_logp(policy.forward(prompts, answers)[0], answers, 1.0)[mask].mean())

    assert worst_error(policy, loss, gradient, rng) < TOLERANCE


def test_advantages_are_normalised_within_each_group() -> None:
    rewards = np.array([[0.0, 0.0, 0.0, 1.0], [0.1, 1.0, 1.0, 0.1]])
    by_hand = [
        [-0.5, -0.5, -0.5, 1.5],
        [-math.sqrt(0.75), math.sqrt(0.75), math.sqrt(0.75), -math.sqrt(0.75)],
    ]
    assert group_advantages(rewards, by_std=True) == pytest.approx(np.array(by_hand), abs=1e-5)
    assert group_advantages(rewards[:1], by_std=False) == pytest.approx(np.array([[-0.25, -0.25, -0.25, 0.75]]))


@pytest.mark.parametrize("by_std", [True, False])
@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_a_group_of_equal_rewards_teaches_nothing(by_std: bool, reward: float) -> None:
    assert not group_advantages(np.full((2, 4), reward), by_std).any()


MASK = np.array([[True, False, False, False], [True, True, True, False]])


@pytest.mark.parametrize(
    ("loss_agg", "by_hand"),
    [
        ("token-mean", [[1 / 4, 0, 0, 0], [1 / 4, 1 / 4, 1 / 4, 0]]),
        ("seq-mean-token-mean", [[1 / 2, 0, 0, 0], [1 / 6, 1 / 6, 1 / 6, 0]]),
    ],
)
def test_token_weights(loss_agg: str, by_hand: list[list[float]]) -> None:
    assert token_weights(MASK, loss_agg) == pytest.approx(np.array(by_hand))


def one_token_loss(logits: np.ndarray, ref_logp: float, recipe: Recipe) -> tuple[float, float]:
    """KL and entropy of one answer of one token, token 0."""
    answers = np.zeros((1, 1), dtype=np.int64)
    logp = token_logp(logits, answers, recipe.temperature)
    mask = np.ones((1, 1), dtype=np.bool_)
    batch = Batch(answers, answers, mask, np.zeros(1), logp, np.full((1, 1), ref_logp))
    loss = grpo_loss(logits, batch, recipe)
    return loss.kl, loss.entropy


def test_k3_is_ratio_minus_log_ratio_minus_one() -> None:
    logits = np.log(np.array([[[0.5, 0.25, 0.25]]]))
    kl, entropy = one_token_loss(logits, math.log(0.25), Recipe())
    assert kl == pytest.approx(0.5 - math.log(0.5) - 1)  # reference over policy is 0.25 / 0.5
    assert entropy == pytest.approx(1.5 * math.log(2))
    assert one_token_loss(logits, math.log(0.5), Recipe())[0] == pytest.approx(0, abs=1e-15)


SMALL = Sizes(prompt_slots=2, prompt_alphabet=3, answer_slots=3, answer_alphabet=3)


def a_small_policy(sizes: Sizes = SMALL) -> Policy:
    policy = Policy.at_random(sizes, 8, np.random.default_rng(1))
    policy.w3[:] *= 15
    return policy


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_answers_appear_as_often_as_their_probability(temperature: float) -> None:
    policy, count = a_small_policy(), 20000
    prompts = np.tile([1, 2], (count, 1))
    answers = policy.sample(prompts, temperature, np.random.default_rng(2))
    kinds, numbers = np.unique(answers, axis=0, return_counts=True)
    logp = log_softmax(policy.forward(prompts[: len(kinds)], kinds)[0] / temperature)
    chosen = np.take_along_axis(logp, kinds[..., None], axis=2)[..., 0]
    expected = np.exp(np.where(answer_mask(kinds, SMALL.end), chosen, 0).sum(axis=1))
    assert len(kinds) > 4
    assert expected.sum() == pytest.approx(1, abs=0.01)
    assert numbers / count == pytest.approx(expected, abs=0.014)


def test_a_token_sees_the_prompt_and_the_tokens_before_it_and_nothing_else() -> None:
    policy, rng = a_small_policy(SORT.sizes), np.random.default_rng(0)
    prompts = SORT.prompts(1, rng)
    answers = SORT.demonstrations(prompts, rng)
    before, _ = policy.forward(prompts, answers)
    changed = answers.copy()
    changed[0, 2] = (changed[0, 2] + 1) % SORT.sizes.end
    after, _ = policy.forward(prompts, changed)
    assert np.array_equal(before[0, :3], after[0, :3])
    assert (before[0, 3:] != after[0, 3:]).any(axis=1).all()
    other_prompt, _ = policy.forward((prompts + 1) % 8, answers)
    assert (before[0] != other_prompt[0]).any(axis=1).all()


@pytest.mark.parametrize("max_norm", [1.0, 10.0])
def test_adam_clips_the_norm_and_its_first_step_is_the_learning_rate(max_norm: float) -> None:
    weights, gradient = np.zeros(3), np.array([3.0, -4.0, 0.0])
    adam = Adam(weights)
    assert adam.update(gradient, lr=0.1, max_norm=max_norm) == pytest.approx(5.0)  # before clipping
    assert weights == pytest.approx(np.array([-0.1, 0.1, 0.0]))
    assert adam.first == pytest.approx(0.1 * gradient * min(1, max_norm / 5))
