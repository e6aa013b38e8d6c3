"""Group Relative Policy Optimization: advantages, the loss, and its gradient by hand.

Sources: GRPO from Shao et al., "DeepSeekMath" (arXiv:2402.03300, 2024); the clipped ratio from Schulman et
al., "Proximal Policy Optimization Algorithms" (arXiv:1707.06347, 2017), with separate lower and upper bounds
as in Yu et al., "DAPO" (arXiv:2503.14476, 2025); the k3 estimator of the KL from Schulman, "Approximating KL
Divergence" (joschu.net/blog/kl-approx.html, 2020). The loss of token t of answer i, with ratio r = exp(logp -
old_logp), advantage A and q = ref_logp - logp, is

    -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A) + kl_coef (exp(q) - q - 1) - entropy_coef H

where H is the entropy of the whole token distribution. All probabilities are those of softmax(logits /
temperature), the distribution that the answers were sampled from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autoresearch.tinygrpo.arrays import Bools, Floats, Ints, log_softmax, one_hot, take_tokens
from autoresearch.tinygrpo.recipe import Recipe

STD_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Batch:
    """Sampled answers, with the advantages and log-probabilities at sampling time that the loss needs.

    Shapes: prompts (N, P), answers (N, L), mask (N, L), advantages (N,), old_logp (N, L), ref_logp (N, L).
    """

    prompts: Ints
    answers: Ints
    mask: Bools
    advantages: Floats
    old_logp: Floats
    ref_logp: Floats

    def part(self, rows: Ints) -> Batch:
        """The batch reduced to these rows."""
        return replace(
            self,
            prompts=self.prompts[rows],
            answers=self.answers[rows],
            mask=self.mask[rows],
            advantages=self.advantages[rows],
            old_logp=self.old_logp[rows],
            ref_logp=self.ref_logp[rows],
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of a batch, its gradient (N, L, V) with respect to the logits, and its parts.

    `total` = pg + kl_coef kl - entropy_coef entropy. `clip_fraction` is the share of tokens without a policy gradient
    due to clipping, `ppo_kl` the mean of old_logp - logp.
    """

    total: float
    d_logits: Floats
    pg: float
    kl: float
    entropy: float
    clip_fraction: float
    ppo_kl: float


def group_advantages(rewards: Floats, by_std: bool) -> Floats:
    """Advantages (B, G) of rewards (B, G): minus the group's mean and, if `by_std`, over its standard deviation.

    The standard deviation is the sample's (G - 1 in the denominator), plus 1e-6. A group of equal rewards has advantage
    0.
    """
    centred: Floats = rewards - rewards.mean(axis=1, keepdims=True)
    if not by_std:
        return centred
    normalised: Floats = centred / (rewards.std(axis=1, ddof=1, keepdims=True) + STD_EPSILON)
    return normalised


def token_weights(mask: Bools, loss_agg: str) -> npt.NDArray[np.float64]:
    """Weights (N, L) that sum to 1 over all tokens of the answers.

    `token-mean`: every token has the same weight, so a long answer counts more. `seq-mean-token-mean`: every answer has
    the same weight.
    """
    tokens = mask.sum() if loss_agg == "token-mean" else mask.sum(axis=1, keepdims=True) * len(mask)
    weights: npt.NDArray[np.float64] = mask / tokens
    return weights


def token_logp(logits: Floats, answers: Ints, temperature: float) -> Floats:
    """Log-probability (N, L) of each answer token under softmax(logits / temperature)."""
    return take_tokens(log_softmax(logits / temperature), answers)


def grpo_loss(logits: Floats, batch: Batch, recipe: Recipe) -> Loss:
    """The loss in this module's docstring for logits (N, L, V), with its gradient."""
    logp_all = log_softmax(logits / recipe.temperature)
    probabilities = np.exp(logp_all)
    logp = take_tokens(logp_all, batch.answers)
    weights = token_weights(batch.mask, recipe.loss_agg).astype(logits.dtype)
    advantages = batch.advantages[:, None]

    # Tokens after END have weight 0, but must not overflow.
    ratio = np.exp(np.where(batch.mask, logp - batch.old_logp, 0))
    bounded = np.clip(ratio, 1 - recipe.clip_low, 1 + recipe.clip_high)
    surrogate = np.minimum(ratio * advantages, bounded * advantages)
    clipped = bounded * advantages < ratio * advantages
    q = np.where(batch.mask, batch.ref_logp - logp, 0)
    kl = np.exp(q) - q - 1
    entropy = -(probabilities * logp_all).sum(axis=-1)

    d_logp = np.where(clipped, 0, -advantages * ratio) + recipe.kl_coef * (1 - np.exp(q))
    chosen = one_hot(batch.answers, logits.shape[-1], logits.dtype)
    # d logp / d logits = chosen - p;  dH / d logits = -p (logp + H)
    d_scaled = d_logp[..., None] * (chosen - probabilities)
    d_scaled += recipe.entropy_coef * probabilities * (logp_all + entropy[..., None])

    def mean(values: Floats) -> float:
        return float((weights * values).sum())

    pg_mean, kl_mean, entropy_mean = mean(-surrogate), mean(kl), mean(entropy)
    return Loss(
        total=pg_mean + recipe.kl_coef * kl_mean - recipe.entropy_coef * entropy_mean,
        d_logits=weights[..., None] * d_scaled / recipe.temperature,
        pg=pg_mean,
        kl=kl_mean,
        entropy=entropy_mean,
        clip_fraction=mean(clipped.astype(logits.dtype)),
        ppo_kl=mean(batch.old_logp - logp),
    )
