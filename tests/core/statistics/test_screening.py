"""Screening by the curve: what ends a run, and what must not."""

from __future__ import annotations

import math
import random

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.statistics.screening import Curve, behind

UP = Objective("pass@1")
DOWN = Objective("loss", Direction.MINIMIZE)


def curve(*values: float, every: int = 10) -> list[tuple[int, float]]:
    return [(every * n, value) for n, value in enumerate(values, 1)]


def mirrored(points: Curve) -> list[tuple[int, float]]:
    return [(step, -value) for step, value in points]


FOUR = [curve(0.10, 0.30, 0.4), curve(0.12, 0.32, 0.5), curve(0.14, 0.34, 0.6), curve(0.16, 0.36, 0.7)]
"""At step 20 the mean is 0.33, the standard deviation 0.026, and the bound 2.35 * sqrt(1.25) of it below: 0.262."""


@pytest.mark.parametrize(
    ("shown", "baseline", "ends"),
    [
        (curve(0.1, 0.25), FOUR, True),
        (curve(0.1, 0.27), FOUR, False),  # lower, and within what one more run of the baseline may show
        (curve(0.4, 0.1), FOUR, False),  # the best so far counts
        (curve(0.1, 0.25), FOUR[:2], False),  # too few
        (curve(0.1, 0.25), [*FOUR[:2], curve(0.1)], False),  # the third has not come as far
        (curve(0.1, 0.25), [curve(0.1, 0.3)] * 4, False),  # equal runs show no noise
        (curve(0.1, 0.1, 0.1, 0.1), FOUR, False),  # nobody has come as far as step 40
        (curve(math.nan), FOUR, True),
        (curve(), FOUR, False),
    ],
)
@pytest.mark.parametrize("objective", [UP, DOWN], ids=["up", "down"])
def test_what_ends_a_run(shown: Curve, baseline: list[Curve], ends: bool, objective: Objective) -> None:
    if objective is DOWN:
        shown, baseline = mirrored(shown), [mirrored(one) for one in baseline]
    assert bool(behind(shown, baseline, objective)) == ends


def test_the_reason_is_a_sentence() -> None:
    assert behind(curve(0.1, 0.2), FOUR, UP) == "0.2 at step 20, clearly behind 0.33 of the baseline's 4 runs"


def test_an_idea_that_changes_nothing_is_ended_as_rarely_as_it_says() -> None:
    draw = random.Random(7)

    def drawn() -> Curve:
        return [(10, draw.gauss(0.0, 1.0))]

    ended = sum(bool(behind(drawn(), [drawn() for _ in range(5)], UP)) for _ in range(4000))
    assert 0.04 < ended / 4000 < 0.06
