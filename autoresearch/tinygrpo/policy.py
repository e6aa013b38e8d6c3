"""The policy: a two-layer network that generates an answer token by token, with a hand-written gradient.

With e the embeddings, the input of position t is the prompt and the answer so far,

    x_t = sum_p e_prompt[p, prompt_p] + sum_{c<t} e_answer[c, answer_c] + e_position[t]
    h1 = tanh(x_t)    h2 = tanh(h1 W2 + b2)    logits_t = h2 W3 + b3

This is a network over one-hot inputs whose first layer is looked up and summed instead of multiplied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autoresearch.tinygrpo.arrays import Floats, Ints, log_softmax, one_hot
from autoresearch.tinygrpo.tasks import Sizes


@dataclass(frozen=True, slots=True)
class Weights:
    """Named views into one flat vector, for weights and for gradients.

    Shapes, for P prompt slots of alphabet A, L answer slots of alphabet V and width H: prompt (P, A, H), answer (L, V,
    H), position (L, H), w2 (H, H), b2 (H,), w3 (H, V), b3 (V,).
    """

    flat: Floats
    prompt: Floats
    answer: Floats
    position: Floats
    w2: Floats
    b2: Floats
    w3: Floats
    b3: Floats

    @classmethod
    def over(cls, flat: Floats, sizes: Sizes, hidden: int) -> Weights:
        """Views into a flat vector of `count(sizes, hidden)` numbers."""
        parts = []
        start = 0
        for shape in _shapes(sizes, hidden):
            stop = start + math.prod(shape)
            parts.append(flat[start:stop].reshape(shape))
            start = stop
        return cls(flat, *parts)

    @staticmethod
    def count(sizes: Sizes, hidden: int) -> int:
        """Total number of weights of a policy of this size."""
        return sum(math.prod(shape) for shape in _shapes(sizes, hidden))


def _shapes(sizes: Sizes, hidden: int) -> list[tuple[int, ...]]:
    return [
        (sizes.prompt_slots, sizes.prompt_alphabet, hidden),
        (sizes.answer_slots, sizes.answer_alphabet, hidden),
        (sizes.answer_slots, hidden),
        (hidden, hidden),
        (hidden,),
        (hidden, sizes.answer_alphabet),
        (sizes.answer_alphabet,),
    ]


def _smoother(alphabet: int) -> Floats:
    """(A, A) weights that mix the embeddings of nearby numbers, so that learning about 7 helps with 8.

    A Gaussian of width 3 plus a peak on the diagonal; rows have norm 1, which preserves the scale of the embeddings.
    """
    numbers = np.arange(alphabet)
    near = np.exp(-((numbers[:, None] - numbers) ** 2) / (2 * 3.0**2))
    near /= np.sqrt((near**2).sum(axis=1, keepdims=True))
    mixed = near + 0.5 * np.eye(alphabet)
    return np.asarray(mixed / np.sqrt((mixed**2).sum(axis=1, keepdims=True)))


@dataclass(frozen=True, slots=True)
class Activations:
    """What the backward pass needs from the forward pass: tokens and both hidden layers, (L * N, H) each."""

    prompts: Ints
    answers: Ints
    h1: Floats
    h2: Floats


@dataclass(frozen=True, slots=True)
class Policy:
    """The network: its sizes and weights, forward and backward pass, and sampling."""

    sizes: Sizes
    hidden: int
    weights: Weights

    @classmethod
    def at_random(
        cls, sizes: Sizes, hidden: int, rng: np.random.Generator, dtype: npt.DTypeLike = np.float32
    ) -> Policy:
        """A new random policy, near-uniform over tokens, in which nearby numbers have similar embeddings."""
        weights = Weights.over(np.zeros(Weights.count(sizes, hidden), dtype), sizes, hidden)
        embedding_scale = (sizes.prompt_slots + sizes.answer_slots) ** -0.5
        raw = rng.normal(0, embedding_scale, weights.prompt.shape)
        weights.prompt[:] = _smoother(sizes.prompt_alphabet) @ raw
        weights.answer[:] = rng.normal(0, embedding_scale, weights.answer.shape)
        weights.position[:] = rng.normal(0, embedding_scale, weights.position.shape)
        weights.w2[:] = rng.normal(0, hidden**-0.5, weights.w2.shape)
        weights.w3[:] = rng.normal(0, 0.1 * hidden**-0.5, weights.w3.shape)
        return cls(sizes, hidden, weights)

    def copy(self) -> Policy:
        """A policy with its own copy of the weights."""
        flat = self.weights.flat.copy()
        return Policy(self.sizes, self.hidden, Weights.over(flat, self.sizes, self.hidden))

    def forward(self, prompts: Ints, answers: Ints) -> tuple[Floats, Activations]:
        """Logits (N, L, V) of every answer token given the prompt and the tokens before it."""
        weights = self.weights
        # Slot by slot: numpy's cumsum over a middle axis and matmul of 3-D arrays are several times slower.
        x = np.empty((self.sizes.answer_slots, len(prompts), self.hidden), weights.flat.dtype)
        x[0] = self._prompt_sum(prompts)
        for slot in range(self.sizes.answer_slots - 1):
            np.add(x[slot], weights.answer[slot, answers[:, slot]], out=x[slot + 1])
        x += weights.position[:, None]
        h1 = np.tanh(x, out=x).reshape(-1, self.hidden)
        h2 = h1 @ weights.w2
        h2 += weights.b2
        np.tanh(h2, out=h2)
        logits = (h2 @ weights.w3 + weights.b3).reshape(*x.shape[:2], -1)
        return logits.swapaxes(0, 1), Activations(prompts, answers, h1, h2)

    def backward(self, activations: Activations, d_logits: Floats) -> Floats:
        """The flat gradient of the weights for a gradient (N, L, V) with respect to the logits."""
        weights = self.weights
        flat = np.zeros_like(weights.flat)
        gradient = Weights.over(flat, self.sizes, self.hidden)
        rows = d_logits.astype(flat.dtype).swapaxes(0, 1).reshape(-1, self.sizes.answer_alphabet)
        gradient.w3[:] = activations.h2.T @ rows
        gradient.b3[:] = rows.sum(axis=0)
        d2 = (rows @ weights.w3.T) * (1 - activations.h2 * activations.h2)
        gradient.w2[:] = activations.h1.T @ d2
        gradient.b2[:] = d2.sum(axis=0)
        dx = (d2 @ weights.w2.T) * (1 - activations.h1 * activations.h1)
        self._embedding_gradients(gradient, activations, dx.reshape(self.sizes.answer_slots, -1, self.hidden))
        return flat

    def sample(self, prompts: Ints, temperature: float, rng: np.random.Generator) -> Ints:
        """(N, L) answers sampled token by token at this temperature, filled with END after the first END."""
        weights, end = self.weights, self.sizes.end
        count, length = len(prompts), self.sizes.answer_slots
        uniform = rng.random((length, count), dtype=np.float32)
        answers = np.full((count, length), end, dtype=np.int64)
        x = self._prompt_sum(prompts)
        running = np.ones(count, dtype=np.bool_)
        for slot in range(length):
            h2 = np.tanh(np.tanh(x + weights.position[slot]) @ weights.w2 + weights.b2)
            probabilities = np.exp(log_softmax((h2 @ weights.w3 + weights.b3) / temperature))
            # Inverse of the cumulative distribution; the last token also gets the rounding error.
            passed = (np.cumsum(probabilities[:, :-1], axis=1) < uniform[slot, :, None]).sum(axis=1)
            answers[:, slot] = np.where(running, passed, end)
            running &= answers[:, slot] != end
            x += weights.answer[slot, answers[:, slot]]
        return answers

    def _prompt_sum(self, prompts: Ints) -> Floats:
        """(N, H): the summed embeddings of each prompt."""
        slots = np.arange(self.sizes.prompt_slots)
        summed: Floats = self.weights.prompt[slots, prompts].sum(axis=1)
        return summed

    def _embedding_gradients(self, gradient: Weights, activations: Activations, dx: Floats) -> None:
        """Gradients of the three embeddings from dx (L, N, H), summed over the positions where each was added."""
        sizes = self.sizes
        gradient.position[:] = dx.sum(axis=1)
        # The token of a slot was added to every later slot, the prompt to all of them.
        later = np.zeros_like(dx[0])
        for slot in range(sizes.answer_slots - 1, 0, -1):
            later += dx[slot]
            tokens = one_hot(activations.answers[:, slot - 1], sizes.answer_alphabet, dx.dtype)
            gradient.answer[slot - 1] = tokens.T @ later
        tokens = one_hot(activations.prompts, sizes.prompt_alphabet, dx.dtype).reshape(len(later), -1)
        gradient.prompt[:] = (tokens.T @ (later + dx[0])).reshape(gradient.prompt.shape)
