"""A second frozen landscape, of another training: actor-critic on CartPole, in numpy.

    python -m tests.bench.cartpole_landscape     four minutes on one core; writes tests/bench/cartpole_landscape.tsv

Every point of a grid over five keys is trained with four seeds and then plays 32 episodes; a row holds the steps
that the pole stayed up in all of them, for each seed. All runs of a seed are trained side by side, as one stack of
small networks. Training on policy magnifies rounding: another machine gives other rows of the same distribution.

The task is Barto, Sutton, Anderson, "Neuronlike adaptive elements" (1983) with the constants of Gymnasium's
CartPole-v1; the algorithm is A2C with the advantages of Schulman et al., arXiv:1506.02438, and Adam.
"""

from __future__ import annotations

import csv
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np  # noqa: E402

from tests.bench.search_landscape import Landscape  # noqa: E402

TABLE = Path(__file__).with_suffix(".tsv")
SEEDS = range(4)
AXES: dict[str, tuple[float, ...]] = {
    "lr": (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "one_minus_gamma": (3e-3, 1e-2, 3e-2, 1e-1, 3e-1),
    "gae_lambda": (0.0, 0.5, 0.9, 1.0),
    "entropy_coef": (1e-3, 1e-2, 1e-1, 1.0),
    "value_coef": (1e-2, 1e-1, 1.0),
}
LOGARITHMIC = ("lr", "one_minus_gamma", "entropy_coef", "value_coef")
START = {"lr": 1e-3, "one_minus_gamma": 1e-1, "gae_lambda": 1.0, "entropy_coef": 1e-2, "value_coef": 1e-1}

HIDDEN, ENVS, ROLLOUT, UPDATES = 16, 8, 32, 80
EPISODES, LONGEST = 32, 500
"""Episodes played after the training, and the steps at which each is ended: a score is a share of their product."""

Array = np.ndarray[Any, np.dtype[np.float64]]


class CartPole:
    """Many poles at once: `state` has the shape (runs, environments, 4)."""

    def __init__(self, runs: int, envs: int, chance: np.random.Generator) -> None:
        self._chance = chance
        self.state = chance.uniform(-0.05, 0.05, (runs, envs, 4))
        self.age = np.zeros((runs, envs), dtype=int)

    def step(self, right: Array) -> tuple[Array, Array]:
        """Push each cart; returns which poles fell, and which episodes are over. Those begin anew."""
        x, v, angle, spin = np.moveaxis(self.state, -1, 0)
        force = np.where(right, 10.0, -10.0)
        sine, cosine = np.sin(angle), np.cos(angle)
        push = (force + 0.05 * spin**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        accel = push - 0.05 * turn * cosine / 1.1
        self.state = np.stack([x + 0.02 * v, v + 0.02 * accel, angle + 0.02 * spin, spin + 0.02 * turn], axis=-1)
        self.age += 1
        fell = (abs(self.state[..., 0]) > 2.4) | (abs(self.state[..., 2]) > np.radians(12))
        over = fell | (self.age >= LONGEST)
        self.state = np.where(over[..., None], self._chance.uniform(-0.05, 0.05, self.state.shape), self.state)
        self.age[over] = 0
        return fell, over


def train(points: Sequence[dict[str, float]], seed: int) -> list[int]:
    """Steps that the pole stays up in all episodes after the training, for each point."""
    chance, runs = np.random.default_rng(seed), len(points)
    column = {key: np.array([point[key] for point in points]) for key in AXES}
    gamma = 1 - column["one_minus_gamma"][:, None]
    decay = gamma * column["gae_lambda"][:, None]
    body = chance.normal(0, 0.5, (runs, 5, HIDDEN))  # the last row of each matrix is its bias
    heads = np.stack([chance.normal(0, 0.1, (runs, HIDDEN + 1)) for _ in range(2)], axis=-1)  # logit of right, value
    weights, moments = [body, heads], [[np.zeros_like(w), np.zeros_like(w)] for w in (body, heads)]
    poles = CartPole(runs, ENVS, chance)
    for update in range(1, UPDATES + 1):
        seen, hidden, went, worth, fallen, ended = [], [], [], [], [], []
        for _ in range(ROLLOUT):
            inputs, features, out = _forward(poles.state, weights)
            right = chance.random((runs, ENVS)) < _sigmoid(out[..., 0])
            fell, over = poles.step(right)
            for kept, value in zip(
                (seen, hidden, went, worth, fallen, ended), (inputs, features, right, out, fell, over), strict=True
            ):
                kept.append(value)
        after = _forward(poles.state, weights)[2][..., 1]
        advantage, gathered = np.zeros((runs, ENVS)), []
        for n in reversed(range(ROLLOUT)):
            value = worth[n][..., 1]
            # Where an episode was cut, the next state is another one's: the last state's worth stands for it.
            next_value = np.where(fallen[n], 0.0, np.where(ended[n], value, after))
            advantage = 1 + gamma * next_value - value + decay * np.where(ended[n], 0.0, advantage)
            gathered.append(advantage)
            after = value
        gain = np.stack(gathered[::-1])
        scaled = (gain - gain.mean((0, 2), keepdims=True)) / (gain.std((0, 2), keepdims=True) + 1e-8)
        out, chosen = np.stack(worth), np.stack(went)
        logit, p = out[..., 0], _sigmoid(out[..., 0])
        d_logit = -scaled * (chosen - p) + column["entropy_coef"][:, None] * logit * p * (1 - p)
        d_value = -column["value_coef"][:, None] * gain
        d_out = np.stack([d_logit, d_value], axis=-1) / (ROLLOUT * ENVS)
        features, inputs = np.stack(hidden), np.stack(seen)
        d_hidden = np.einsum("trek,rhk->treh", d_out, weights[1][:, :-1]) * (1 - features[..., :-1] ** 2)
        gradients = [np.einsum("trei,treh->rih", inputs, d_hidden), np.einsum("treh,trek->rhk", features, d_out)]
        for weight, gradient, (mean, square) in zip(weights, gradients, moments, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            step = (mean / (1 - 0.9**update)) / (np.sqrt(square / (1 - 0.999**update)) + 1e-8)
            weight -= column["lr"][:, None, None] * step
    poles, up = CartPole(runs, EPISODES, chance), np.ones((runs, EPISODES), dtype=bool)
    steps = np.zeros(runs, dtype=int)
    for _ in range(LONGEST):
        steps += up.sum(1)
        fell, _ = poles.step(chance.random(up.shape) < _sigmoid(_forward(poles.state, weights)[2][..., 0]))
        up &= ~fell
    return [int(n) for n in steps]


def _forward(state: Array, weights: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Inputs and features, each with its constant 1, and the two heads."""
    inputs = np.concatenate([state, np.ones((*state.shape[:-1], 1))], axis=-1)
    features = np.concatenate([np.tanh(inputs @ weights[0]), np.ones((*state.shape[:-1], 1))], axis=-1)
    return inputs, features, features @ weights[1]


def _sigmoid(logit: Array) -> Array:
    return 1 / (1 + np.exp(-np.clip(logit, -30, 30)))


def load(path: Path = TABLE) -> Landscape:
    """The frozen landscape: the share of the steps that the pole could have stayed up."""
    curves = {}
    with path.open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            corner = tuple(float(row[key]) for key in AXES)
            for seed, steps in enumerate(row["steps"].split()):
                curves[corner, seed] = [int(steps) / (EPISODES * LONGEST)]
    return Landscape("CartPole", AXES, LOGARITHMIC, START, (UPDATES,), curves)


def measure() -> None:
    """Train every point with every seed, and write the table."""
    corners = list(itertools.product(*AXES.values()))
    points = [dict(zip(AXES, corner, strict=True)) for corner in corners]
    columns = [train(points, seed) for seed in SEEDS]
    with TABLE.open("w", newline="") as file:
        out = csv.writer(file, delimiter="\t", lineterminator="\n")
        out.writerow([*AXES, "steps"])
        for corner, *steps in zip(corners, *columns, strict=True):
            out.writerow([*(f"{value:g}" for value in corner), " ".join(map(str, steps))])
    print("done", file=sys.stderr)


if __name__ == "__main__":
    os.nice(10)
    measure()
