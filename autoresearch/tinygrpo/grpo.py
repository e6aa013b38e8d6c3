"""Group Relative Policy Optimization: the policy, its rollouts, the loss, and all gradients by hand.

The policy is a two-layer network that generates an answer token by token. With e the embeddings, the input of position
t is the prompt and the answer so far,

    x_t = sum_p e_prompt[p, prompt_p] + sum_{c<t} e_answer[c, answer_c] + e_position[t]
    h1 = tanh(x_t)    h2 = tanh(h1 W2 + b2)    logits_t = h2 W3 + b3

This is a network over one-hot inputs whose first layer is looked up and summed instead of multiplied. Adam is that of
Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, with gradient clipping.

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

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autoresearch.tinygrpo.recipe import Recipe
from autoresearch.tinygrpo.tasks import TASKS_BY_NAME, Bools, Floats, Ints, Sizes, Task, answer_mask

BETA1, BETA2, EPSILON = 0.9, 0.99, 1e-8
STD_EPSILON = 1e-6
SFT_BATCH = 64
SFT_LR = 3e-3
SFT_GRAD_CLIP = 1.0


def log_softmax(logits: Floats) -> Floats:
    """Logarithm of the softmax over the last axis; same shape as `logits`."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))  # type: ignore[no-any-return]


def one_hot(tokens: Ints, size: int, dtype: npt.DTypeLike) -> Floats:
    """Rows of the identity matrix: (...,) gives (..., size)."""
    return np.eye(size, dtype=dtype)[tokens]


class Activations(NamedTuple):
    """What the backward pass needs from the forward pass: tokens and both hidden layers, (L * N, H) each."""

    prompts: Ints
    answers: Ints
    h1: Floats
    h2: Floats


class Policy:
    """The network: forward and backward pass, and sampling.

    Its weights are named views into one flat vector. Shapes, for P prompt slots of alphabet A, L answer slots of
    alphabet V and width H: prompt (P, A, H), answer (L, V, H), position (L, H), w2 (H, H), b2 (H,), w3 (H, V), b3 (V,).
    """

    def __init__(
        self, sizes: Sizes, hidden: int, flat: Floats | None = None, dtype: npt.DTypeLike = np.float32
    ) -> None:
        """A policy over a flat vector of weights, all 0 if none is given."""
        self.sizes, self.hidden = sizes, hidden
        shapes = [
            (sizes.prompt_slots, sizes.prompt_alphabet, hidden),
            (sizes.answer_slots, sizes.answer_alphabet, hidden),
            (sizes.answer_slots, hidden),
            (hidden, hidden),
            (hidden,),
            (hidden, sizes.answer_alphabet),
            (sizes.answer_alphabet,),
        ]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        self.flat: Floats = np.zeros(ends[-1], dtype) if flat is None else flat
        parts = [part.reshape(shape) for part, shape in zip(np.split(self.flat, ends[:-1]), shapes, strict=True)]
        self.prompt, self.answer, self.position, self.w2, self.b2, self.w3, self.b3 = parts

    @classmethod
    def at_random(
        cls, sizes: Sizes, hidden: int, rng: np.random.Generator, dtype: npt.DTypeLike = np.float32
    ) -> Policy:
        """A new random policy, near-uniform over tokens, in which nearby numbers have similar embeddings."""
        policy = cls(sizes, hidden, dtype=dtype)
        # Learning about 7 helps with 8: a Gaussian of width 3 plus a peak on the diagonal mixes the embeddings of
        # nearby numbers; rows have norm 1, which preserves their scale.
        numbers = np.arange(sizes.prompt_alphabet)
        near = np.exp(-((numbers[:, None] - numbers) ** 2) / (2 * 3.0**2))
        near /= np.sqrt((near**2).sum(axis=1, keepdims=True))
        mixed = near + 0.5 * np.eye(sizes.prompt_alphabet)
        mixed /= np.sqrt((mixed**2).sum(axis=1, keepdims=True))
        embedding_scale = (sizes.prompt_slots + sizes.answer_slots) ** -0.5
        policy.prompt[:] = mixed @ rng.normal(0, embedding_scale, policy.prompt.shape)
        policy.answer[:] = rng.normal(0, embedding_scale, policy.answer.shape)
        policy.position[:] = rng.normal(0, embedding_scale, policy.position.shape)
        policy.w2[:] = rng.normal(0, hidden**-0.5, policy.w2.shape)
        policy.w3[:] = rng.normal(0, 0.1 * hidden**-0.5, policy.w3.shape)
        return policy

    def copy(self) -> Policy:
        """A policy with its own copy of the weights."""
        return Policy(self.sizes, self.hidden, self.flat.copy())

    def forward(self, prompts: Ints, answers: Ints) -> tuple[Floats, Activations]:
        """Logits (N, L, V) of every answer token given the prompt and the tokens before it."""
        # Slot by slot: numpy's cumsum over a middle axis and matmul of 3-D arrays are several times slower.
        x = np.empty((self.sizes.answer_slots, len(prompts), self.hidden), self.flat.dtype)
        x[0] = self._prompt_sum(prompts)
        for slot in range(self.sizes.answer_slots - 1):
            np.add(x[slot], self.answer[slot, answers[:, slot]], out=x[slot + 1])
        x += self.position[:, None]
        h1 = np.tanh(x, out=x).reshape(-1, self.hidden)
        h2 = h1 @ self.w2
        h2 += self.b2
        np.tanh(h2, out=h2)
        logits = (h2 @ self.w3 + self.b3).reshape(*x.shape[:2], -1)
        return logits.swapaxes(0, 1), Activations(prompts, answers, h1, h2)

    def backward(self, activations: Activations, d_logits: Floats) -> Floats:
        """The flat gradient of the weights for a gradient (N, L, V) with respect to the logits."""
        sizes, h1, h2 = self.sizes, activations.h1, activations.h2
        gradient = Policy(sizes, self.hidden, np.zeros_like(self.flat))
        rows = d_logits.astype(self.flat.dtype).swapaxes(0, 1).reshape(-1, sizes.answer_alphabet)
        gradient.w3[:] = h2.T @ rows
        gradient.b3[:] = rows.sum(axis=0)
        d2 = (rows @ self.w3.T) * (1 - h2 * h2)
        gradient.w2[:] = h1.T @ d2
        gradient.b2[:] = d2.sum(axis=0)
        dx = ((d2 @ self.w2.T) * (1 - h1 * h1)).reshape(sizes.answer_slots, -1, self.hidden)
        gradient.position[:] = dx.sum(axis=1)
        # The token of a slot was added to every later slot, the prompt to all of them.
        later = np.zeros_like(dx[0])
        for slot in range(sizes.answer_slots - 1, 0, -1):
            later += dx[slot]
            tokens = one_hot(activations.answers[:, slot - 1], sizes.answer_alphabet, dx.dtype)
            gradient.answer[slot - 1] = tokens.T @ later
        tokens = one_hot(activations.prompts, sizes.prompt_alphabet, dx.dtype).reshape(len(later), -1)
        gradient.prompt[:] = (tokens.T @ (later + dx[0])).reshape(gradient.prompt.shape)
        return gradient.flat

    def sample(self, prompts: Ints, temperature: float, rng: np.random.Generator) -> Ints:
        """(N, L) answers sampled token by token at this temperature, filled with END after the first END."""
        end, count, length = self.sizes.end, len(prompts), self.sizes.answer_slots
        uniform = rng.random((length, count), dtype=np.float32)
        answers = np.full((count, length), end, dtype=np.int64)
        x = self._prompt_sum(prompts)
        running = np.ones(count, dtype=np.bool_)
        for slot in range(length):
            h2 = np.tanh(np.tanh(x + self.position[slot]) @ self.w2 + self.b2)
            probabilities = np.exp(log_softmax((h2 @ self.w3 + self.b3) / temperature))
            # Inverse of the cumulative distribution; the last token also gets the rounding error.
            passed = (np.cumsum(probabilities[:, :-1], axis=1) < uniform[slot, :, None]).sum(axis=1)
            answers[:, slot] = np.where(running, passed, end)
            running &= answers[:, slot] != end
            x += self.answer[slot, answers[:, slot]]
        return answers

    def _prompt_sum(self, prompts: Ints) -> Floats:
        """(N, H): the summed embeddings of each prompt."""
        summed: Floats = self.prompt[np.arange(self.sizes.prompt_slots), prompts].sum(axis=1)
        return summed


class Adam:
    """The optimiser of a flat vector of weights: both moments of the gradient and the number of updates so far."""

    def __init__(self, weights: Floats) -> None:
        """The initial state for these weights."""
        self.weights = weights
        self.first, self.second = np.zeros_like(weights), np.zeros_like(weights)
        self.updates = 0

    def update(self, gradient: Floats, lr: float, max_norm: float) -> float:
        """Update the weights in place; returns the norm of the gradient before clipping to `max_norm`."""
        norm = float(np.sqrt(np.dot(gradient, gradient)))
        if norm > max_norm:
            gradient = gradient * np.asarray(max_norm / norm, gradient.dtype)
        self.updates += 1
        self.first *= BETA1
        self.first += (1 - BETA1) * gradient
        self.second *= BETA2
        self.second += (1 - BETA2) * gradient**2
        mean = self.first / (1 - BETA1**self.updates)
        spread = np.sqrt(self.second / (1 - BETA2**self.updates)) + EPSILON
        self.weights -= lr * mean / spread
        return norm


@dataclass(frozen=True, slots=True)
class Learner:
    """A run's state. Training changes `policy`, `adam` and `rng` in place; `reference` is the frozen base model."""

    recipe: Recipe
    task: Task
    train_prompts: Ints
    validation_prompts: Ints
    policy: Policy
    reference: Policy
    adam: Adam
    rng: np.random.Generator


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
        return Batch(
            self.prompts[rows],
            self.answers[rows],
            self.mask[rows],
            self.advantages[rows],
            self.old_logp[rows],
            self.ref_logp[rows],
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
    return _take_tokens(log_softmax(logits / temperature), answers)


def _take_tokens(values: Floats, tokens: Ints) -> Floats:
    """`values[..., tokens]` along the last axis: (N, L, V) and (N, L) give (N, L)."""
    return np.take_along_axis(values, tokens[..., None], axis=-1)[..., 0]


def grpo_loss(logits: Floats, batch: Batch, recipe: Recipe) -> Loss:
    """The loss in this module's docstring for logits (N, L, V), with its gradient."""
    logp_all = log_softmax(logits / recipe.temperature)
    probabilities = np.exp(logp_all)
    logp = _take_tokens(logp_all, batch.answers)
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


def make_learner(recipe: Recipe) -> Learner:
    """Make data and base model from `data_seed`, and all later random numbers from `seed`.

    Raises RecipeError if the task has too few prompts.
    """
    task = TASKS_BY_NAME[recipe.task]
    for_data, for_base = (np.random.default_rng([recipe.data_seed, stream]) for stream in (1, 2))
    train, validation = task.split(recipe.train_prompts, recipe.val_tasks, for_data)
    reference = make_base_model(task, train, recipe, for_base)
    policy = reference.copy()
    rng = np.random.default_rng([recipe.seed, 4])
    return Learner(recipe, task, train, validation, policy, reference, Adam(policy.flat), rng)


def make_base_model(task: Task, prompts: Ints, recipe: Recipe, rng: np.random.Generator) -> Policy:
    """A policy trained for `sft_steps` on answers with a share of `sft_noise` wrong tokens, and END after END."""
    policy = Policy.at_random(task.sizes, recipe.hidden, rng)
    adam = Adam(policy.flat)
    for _ in range(recipe.sft_steps):
        chosen = prompts[rng.integers(0, len(prompts), SFT_BATCH)]
        answers = task.demonstrations(chosen, rng)
        replaced = rng.random(answers.shape) < recipe.sft_noise
        answers = np.where(replaced, rng.integers(0, task.sizes.answer_alphabet, answers.shape), answers)
        answers = np.where(answer_mask(answers, task.sizes.end), answers, task.sizes.end)
        logits, seen = policy.forward(chosen, answers)
        gradient = policy.backward(seen, cross_entropy_gradient(logits, answers, task.sizes.end))
        adam.update(gradient, SFT_LR, SFT_GRAD_CLIP)
    return policy


def cross_entropy_gradient(logits: Floats, answers: Ints, end: int) -> Floats:
    """Gradient (N, L, V) of the mean negative log-likelihood of the answers' tokens."""
    weights = token_weights(answer_mask(answers, end), "token-mean").astype(logits.dtype)
    chosen = one_hot(answers, logits.shape[-1], logits.dtype)
    return weights[..., None] * (np.exp(log_softmax(logits)) - chosen)


def roll_out(learner: Learner) -> tuple[Batch, dict[str, float]]:
    """Draw `batch_size` training prompts, sample `group_size` answers to each, and grade them.

    Returns also the statistics of the answers, under verl's names.
    """
    recipe, task, train = learner.recipe, learner.task, learner.train_prompts
    prompts = train[learner.rng.integers(0, len(train), recipe.batch_size)]
    repeated = np.repeat(prompts, recipe.group_size, axis=0)
    answers = learner.policy.sample(repeated, recipe.temperature, learner.rng)
    grades = task.grade(repeated, answers)
    rewards = grades.rewards(recipe.format_reward).reshape(len(prompts), recipe.group_size)
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
    correct = grades.correct.reshape(rewards.shape)
    unfinished = batch.mask[:, -1] & (answers[:, -1] != task.sizes.end)
    return batch, {
        # Score and reward are equal, because the KL is part of the loss and not of the reward.
        **_spread("critic/score", rewards),
        **_spread("critic/rewards", rewards),
        **_spread("critic/advantages", batch.advantages),
        "critic/success_rate": float(correct.mean()),
        "batch/solve_none": float((~correct).all(axis=1).mean()),
        "batch/solve_all": float(correct.all(axis=1).mean()),
        **_spread("response_length", batch.mask.sum(axis=1)),
        "response_length/clip_ratio": float(unfinished.mean()),
    }


def _spread(name: str, values: Floats) -> dict[str, float]:
    return {f"{name}/{how}": float(getattr(values, how)()) for how in ("mean", "max", "min")}


def update_policy(learner: Learner, batch: Batch, lr: float) -> Iterator[tuple[Loss, float]]:
    """Perform one optimiser update per mini-batch; yields its loss and the gradient's norm."""
    recipe, policy = learner.recipe, learner.policy
    for _ in range(recipe.ppo_epochs):
        for rows in np.array_split(learner.rng.permutation(len(batch.answers)), recipe.mini_batches):
            part = batch.part(rows)
            logits, seen = policy.forward(part.prompts, part.answers)
            loss = grpo_loss(logits, part, recipe)
            yield loss, learner.adam.update(policy.backward(seen, loss.d_logits), lr, recipe.grad_clip)
