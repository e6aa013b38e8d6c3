"""The hand-written gradients against central finite differences, in float64, for the whole loss."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autoresearch.tinygrpo.arrays import Bools, Floats, log_softmax, take_tokens
from autoresearch.tinygrpo.grpo import Batch, grpo_loss, token_logp
from autoresearch.tinygrpo.learner import cross_entropy_gradient
from autoresearch.tinygrpo.policy import Policy, Weights
from autoresearch.tinygrpo.recipe import LOSS_AGGREGATIONS, Recipe
from autoresearch.tinygrpo.tasks import Countdown, Sizes, Sort, answer_mask, task_named

STEP = 1e-6
TOLERANCE = 1e-8


def a_policy(sizes: Sizes, rng: np.random.Generator) -> Policy:
    policy = Policy.at_random(sizes, 12, rng, dtype=np.float64)
    policy.weights.w3[:] *= 10  # far from uniform, so that no term is close to zero
    return policy


def a_batch(policy: Policy, task: Sort | Countdown, temperature: float, rng: np.random.Generator) -> Batch:
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


def worst_error(weights: Weights, loss: Callable[[], float], gradient: Floats, rng: np.random.Generator) -> float:
    """Largest difference to finite differences over 150 weights that matter, at least 10 of every part."""
    parts = Weights.over(np.arange(weights.flat.size, dtype=np.float64), *_sizes_of(weights))
    chosen: list[int] = []
    for name in ("prompt", "answer", "position", "w2", "b2", "w3", "b3"):
        indices = getattr(parts, name).reshape(-1).astype(int)
        alive = indices[gradient[indices] != 0]
        assert len(alive) >= 7, f"no gradient reaches {name}"
        chosen += [int(i) for i in rng.choice(alive, min(25, len(alive)), replace=False)]
    worst = 0.0
    for index in chosen:
        before = weights.flat[index]
        weights.flat[index] = before + STEP
        above = loss()
        weights.flat[index] = before - STEP
        below = loss()
        weights.flat[index] = before
        worst = max(worst, abs((above - below) / (2 * STEP) - gradient[index]))
    return worst


def _sizes_of(weights: Weights) -> tuple[Sizes, int]:
    slots, alphabet, hidden = weights.prompt.shape
    return Sizes(slots, alphabet, weights.answer.shape[0], weights.answer.shape[1]), hidden


def token_losses_by_hand(logits: Floats, batch: Batch, recipe: Recipe) -> Floats:
    """The formula of the paper, written once more and without a mask."""
    logp_all = log_softmax(logits / recipe.temperature)
    logp = take_tokens(logp_all, batch.answers)
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


@pytest.mark.parametrize("task", [Sort(), Countdown()], ids=lambda task: task.name)
@pytest.mark.parametrize("loss_agg", LOSS_AGGREGATIONS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_gradient_of_the_whole_loss(task: Sort | Countdown, loss_agg: str, temperature: float) -> None:
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
    assert worst_error(policy.weights, loss, gradient, rng) < TOLERANCE


def test_the_batch_of_the_gradient_check_covers_all_branches() -> None:
    rng = np.random.default_rng(3)
    policy, recipe = a_policy(Sort().sizes, rng), Recipe()
    batch = a_batch(policy, Sort(), 1.0, rng)
    logp = token_logp(policy.forward(batch.prompts, batch.answers)[0], batch.answers, 1.0)
    ratio = np.exp(logp - batch.old_logp)
    up = np.broadcast_to(batch.advantages[:, None] > 0, ratio.shape)
    too_high, too_low = ratio > 1 + recipe.clip_high, ratio < 1 - recipe.clip_low
    for wanted in (up & too_high, up & too_low, ~up & too_high, ~up & too_low, ~too_high & ~too_low):
        assert (wanted & batch.mask).sum() >= 5
    assert len(set(batch.mask.sum(axis=1).tolist())) >= 3


@pytest.mark.parametrize(
    ("advantage", "log_ratio", "moves"),
    [
        (1.0, 0.5, False),
        (1.0, -0.5, True),
        (-1.0, 0.5, True),
        (-1.0, -0.5, False),
        (1.0, 0.2, True),
        (-1.0, -0.2, True),
    ],
)
def test_clipping_stops_only_what_already_went_far_enough(advantage: float, log_ratio: float, moves: bool) -> None:
    """Ratio 1.65 is above 1.28, 0.61 below 0.8; 1.22 and 0.82 are within."""
    sizes = Sort().sizes
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
    policy, task, recipe = a_policy(Sort().sizes, rng), Sort(), Recipe(kl_coef=0.3, entropy_coef=0.2)
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


@pytest.mark.parametrize("name", ["sort", "countdown", "modadd"])
def test_the_gradient_of_the_supervised_loss(name: str) -> None:
    rng = np.random.default_rng(4)
    task = task_named(name)
    policy = a_policy(task.sizes, rng)
    prompts = task.prompts(20, rng)
    answers = task.demonstrations(prompts, rng)
    mask = answer_mask(answers, task.sizes.end)
    logits, seen = policy.forward(prompts, answers)
    gradient = policy.backward(seen, cross_entropy_gradient(logits, answers, task.sizes.end))

    def loss() -> float:
        return float(-token_logp(policy.forward(prompts, answers)[0], answers, 1.0)[mask].mean())

    assert worst_error(policy.weights, loss, gradient, rng) < TOLERANCE
