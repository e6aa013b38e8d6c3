"""Adam with gradient clipping (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoresearch.tinygrpo.arrays import Floats

BETA1, BETA2, EPSILON = 0.9, 0.99, 1e-8


@dataclass(slots=True)
class Adam:
    """State of the optimiser: both moments of the gradient and the number of updates so far."""

    first: Floats
    second: Floats
    updates: int = 0

    @classmethod
    def for_weights(cls, weights: Floats) -> Adam:
        """The initial state for a flat vector of weights."""
        return cls(np.zeros_like(weights), np.zeros_like(weights))

    def update(self, weights: Floats, gradient: Floats, lr: float, max_norm: float) -> float:
        """Update `weights` in place; returns the norm of the gradient before clipping to `max_norm`."""
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
        weights -= lr * mean / spread
        return norm
