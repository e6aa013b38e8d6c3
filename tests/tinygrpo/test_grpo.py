"""Advantages, token weights and the estimators, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autoresearch.tinygrpo.grpo import Batch, group_advantages, grpo_loss, token_logp, token_weights
from autoresearch.tinygrpo.recipe import Recipe


def test_advantages_are_normalised_within_each_group() -> None:
    rewards = np.array([[0.0, 0.0, 0.0, 1.0], [0.1, 1.0, 1.0, 0.1]])
    by_hand = [
        [-0.5, -0.5, -0.5, 1.5],
        [-math.sqrt(0.75), math.sqrt(0.75), math.sqrt(0.75), -math.sqrt(0.75)],
    ]
    assert group_advantages(rewards, by_std=True) == pytest.approx(np.array(by_hand), abs=1e-5)


def test_advantages_without_the_deviation_keep_the_rewards_scale() -> None:
    advantages = group_advantages(np.array([[0.0, 0.0, 0.0, 1.0]]), by_std=False)
    assert advantages == pytest.approx(np.array([[-0.25, -0.25, -0.25, 0.75]]))


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


def test_k3_is_zero_only_where_policy_and_reference_agree() -> None:
    logits = np.log(np.array([[[0.5, 0.25, 0.25]]]))
    assert one_token_loss(logits, math.log(0.5), Recipe())[0] == pytest.approx(0, abs=1e-15)
    assert one_token_loss(logits, math.log(0.49), Recipe())[0] > 1e-5
    assert one_token_loss(logits, math.log(0.51), Recipe())[0] > 1e-5


def test_the_mean_of_k3_is_the_kl() -> None:
    policy, reference = np.array([0.7, 0.2, 0.1]), np.array([0.4, 0.4, 0.2])
    q = np.log(reference / policy)
    assert (policy * (np.exp(q) - q - 1)).sum() == pytest.approx((policy * np.log(policy / reference)).sum())


def test_temperature_divides_the_logits() -> None:
    logits = np.log(np.array([[[0.5, 0.25, 0.25]]]))
    sharper = np.array([0.25, 0.0625, 0.0625]) / 0.375
    _, entropy = one_token_loss(logits, 0.0, Recipe(temperature=0.5))
    assert entropy == pytest.approx(-(sharper * np.log(sharper)).sum())
