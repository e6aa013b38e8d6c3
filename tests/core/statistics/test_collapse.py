"""Runs that collapsed: far below the other runs of their idea, and no evidence of how good it is when it works."""

from __future__ import annotations

import random

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.statistics.noise import CUT, MEDIAN, collapsed, robust_sd, survivors

UP, DOWN = Objective("reward"), Objective("loss", Direction.MINIMIZE)


def test_by_hand() -> None:
    steps = [[float(n) for n in range(11)]]  # of 55 differences, 10 are 1, 9 are 2, 8 are 3, and the 28th is 4
    assert robust_sd(UP, steps) == pytest.approx(4 * MEDIAN)
    far = CUT * (5 / 4) ** 0.5
    values = [10.0, 11.0, 9.0, 10.0, 9.9 - far]
    assert collapsed(UP, values, 1.0) == values[4:] and not collapsed(UP, [*values[:4], 10.1 - far], 1.0)
    assert collapsed(DOWN, [-value for value in values], 1.0) == [-values[4]]
    assert survivors(UP, [10.0, None, -500.0, 10.5], 1.0) == [10.0, 10.5]


def test_what_is_not_known() -> None:
    assert robust_sd(UP, [[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0], [7.0]]) is None, "too few say how far runs lie apart"
    assert robust_sd(UP, [[0.5] * 8 + [0.1] * 3]) is None, "accuracy on a few questions"
    assert not collapsed(UP, [1.0, -1e9], None)


def test_at_least_half_of_an_idea_s_runs_survive() -> None:
    assert survivors(UP, [-500.0], 1.0) == [-500.0]
    assert survivors(UP, [5.0, -500.0], 1.0) == [5.0]
    assert survivors(UP, [5.0, 4.0, -400.0, -500.0], 1.0) == [5.0, 4.0]


def test_without_a_gap_nothing_collapsed() -> None:
    """Four values of one order of the data each: 0.4901 0.4897 0.4994 0.4939 were called `2 of 4 runs collapsed`."""
    assert survivors(UP, [0.4901, 0.4897, 0.4994, 0.4939], 0.0005) == [0.4901, 0.4897, 0.4994, 0.4939]
    assert survivors(UP, [5.0, -500.0, -400.0], 1.0) == [5.0, -500.0, -400.0], "which two belong together?"


def test_runs_that_collapsed_do_not_hide_one_another() -> None:
    rng = random.Random(2)
    groups = [[rng.gauss(level, 1) for _ in range(4)] for level in range(8)]
    for group in groups[:5]:
        group[0] = -40.0
    sd = robust_sd(UP, groups)
    assert sd is not None and 0.6 < sd < 1.6
    assert all(-40.0 in collapsed(UP, group, sd) for group in groups[:5])


def test_normal_noise_seldom_collapses() -> None:
    rng, fallen = random.Random(1), 0
    for _ in range(300):
        groups = [[rng.gauss(0, 1) for _ in range(n)] for n in (5, 4, 4, *[1] * 20, 3, 2, 2)]
        sd = robust_sd(UP, groups)
        fallen += sum(len(collapsed(UP, values, sd)) for values in groups)
    assert 0.0 < fallen / (20 * 300) < 0.02
