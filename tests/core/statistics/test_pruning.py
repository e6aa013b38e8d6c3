"""Early stopping from the curve: what ends a run, what must not, and what a replay says of it."""

from __future__ import annotations

import math

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.statistics.pruning import Curve, MedianRule, value_at

UP = Objective("pass@1")
DOWN = Objective("loss", Direction.MINIMIZE)


def curve(*values: float, every: int = 10) -> list[tuple[int, float]]:
    return [(every * n, value) for n, value in enumerate(values, 1)]


def mirrored(points: Curve) -> list[tuple[int, float]]:
    return [(step, -value) for step, value in points]


FOUR = [curve(0.1, 0.2, 0.3), curve(0.1, 0.3, 0.4), curve(0.2, 0.4, 0.5), curve(0.3, 0.5, 0.6)]
MEDIAN = MedianRule(warmup=5)


@pytest.mark.parametrize(
    ("rule", "shown", "ends"),
    [
        (MEDIAN, curve(0.1, 0.2), True),  # the median at step 20 is 0.35
        (MEDIAN, curve(0.1, 0.35), False),  # as good is not worse
        (MEDIAN, curve(0.5, 0.1), False),  # the best so far counts
        (MEDIAN, curve(0.01), True),
        (MedianRule(warmup=10), curve(0.01), False),  # step 10 is not after the warm-up
        (MedianRule(warmup=10), curve(0.01, 0.02), True),  # step 20 is
        (MedianRule(warmup=5, least=5), curve(0.01), False),  # too few others
        (MEDIAN, curve(0.1, 0.2, 0.2, 0.2), False),  # nobody has come as far as step 40
        (MEDIAN, curve(math.nan), True),  # nothing finite is behind everything
        (MEDIAN, curve(), False),
    ],
)
@pytest.mark.parametrize("objective", [UP, DOWN], ids=["up", "down"])
def test_what_ends_a_run(rule: MedianRule, shown: Curve, ends: bool, objective: Objective) -> None:
    others: list[Curve] = list(FOUR)
    if objective is DOWN:
        shown, others = mirrored(shown), [mirrored(c) for c in FOUR]
    assert (rule.judge(shown, others, objective) is not None) == ends


def test_the_reason_is_a_sentence() -> None:
    stop = MEDIAN.judge(curve(0.1, 0.2), FOUR, UP)
    assert str(stop) == "0.2 at step 20, behind 0.35 of 4 other runs"


def test_the_value_at_a_step_that_was_not_validated() -> None:
    assert value_at(curve(0.1, 0.2, every=20), 30) == 0.1
    assert value_at(curve(0.1, 0.2, every=20), 41) is None
    assert value_at(curve(0.1, math.nan), 20) == 0.1
