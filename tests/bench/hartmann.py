"""Hartmann6 with noise: a smooth function of six numbers in [0, 1], with a narrow best place among four.

Dixon, Szegő, "Towards Global Optimisation 2" (1978), turned round so that more is better; the noise of a run has
a standard deviation of 6 % of its range.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

_HEIGHTS = (1.0, 1.2, 3.0, 3.2)
_STEEPNESS = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
_CENTRES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


class Hartmann:
    """The function as a landscape; the search begins in the middle."""

    name, best, noise = "Hartmann6", 3.32237, 0.2
    steps: Sequence[int] = (1,)
    space: Mapping[str, Mapping[str, object]] = {f"x{n}": {"low": 0.0, "high": 1.0} for n in range(6)}
    start: Mapping[str, float] = dict.fromkeys(space, 0.5)

    def score(self, point: Mapping[str, object]) -> float:
        """The true score."""
        x = [float(str(point[key])) for key in self.space]
        return sum(
            height * math.exp(-sum(a * (v - c) ** 2 for a, v, c in zip(steep, x, centre, strict=True)))
            for height, steep, centre in zip(_HEIGHTS, _STEEPNESS, _CENTRES, strict=True)
        )

    def run(self, point: Mapping[str, object], chance: random.Random) -> list[float]:
        """What one run would show."""
        return [self.score(point) + chance.gauss(0, self.noise)]
