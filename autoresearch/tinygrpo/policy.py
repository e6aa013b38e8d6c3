"""The policy: a two-layer network that generates an answer token by token, its hand-written gradient, and Adam.

With e the embeddings, the input of position t is the prompt and the answer so far,

    x_t = sum_p e_prompt[p, prompt_p] + sum_{c<t} e_answer[c, answer_c] + e_position[t]
    h1 = tanh(x_t)    h2 = tanh(h1 W2 + b2)    logits_t = h2 W3 + b3

This is a network over one-hot inputs whose first layer is looked up and summed instead of multiplied. Adam is that of
Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, with gradient clipping.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autoresearch.tinygrpo.tasks import Floats, Ints, Sizes

BETA1, BETA2, EPSILON = 0.9, 0.99, 1e-8


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
