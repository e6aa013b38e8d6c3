"""Which value is better, and which one counts."""

from __future__ import annotations

import math
import random

import pytest

from autoresearch.core.metrics.objective import Direction, Objective, steadier
from autoresearch.core.metrics.signal import Reading, SignalKind

REWARD = Objective("reward")
LOSS = Objective("loss", Direction.MINIMIZE)


@pytest.mark.parametrize(
    ("objective", "a", "b", "better"),
    [
        (REWARD, 2.0, 1.0, True),
        (REWARD, 1.0, 2.0, False),
        (REWARD, 1.0, 1.0, False),
        (LOSS, 1.0, 2.0, True),
        (LOSS, 2.0, 1.0, False),
        (REWARD, math.nan, 0.0, False),
        (LOSS, math.nan, 0.0, False),
        (REWARD, -1e9, math.nan, True),
        (LOSS, 1e9, math.nan, True),
        (REWARD, math.nan, math.nan, False),
        (REWARD, math.inf, 1.0, True),
        (LOSS, -math.inf, 1.0, True),
    ],
)
def test_better(objective: Objective, a: float, b: float, better: bool) -> None:
    assert objective.better(a, b) is better


def test_a_gain_is_a_lower_loss_and_a_higher_reward() -> None:
    assert (LOSS.better_words, REWARD.better_words) == ("lower is better", "higher is better")
    assert (LOSS.change(0.12), REWARD.change(0.12)) == (-0.12, 0.12)
    assert (LOSS.change(-0.12), REWARD.change(-0.12)) == (0.12, -0.12)
    assert f"{LOSS.change(0.0):+g} {REWARD.change(0.0):+g}" == "+0 +0"  # no -0
    assert LOSS.change(LOSS.change(0.5)) == 0.5


def test_a_series_holds_this_metric_only_in_the_order_it_was_read() -> None:
    readings = [
        Reading(SignalKind.VALIDATION, 0, {"reward": 0.1}),
        Reading(SignalKind.STEP, 1, {"loss": 3.0}),
        Reading(SignalKind.STEP, 2, {"reward": 0.3, "loss": 2.0}),
    ]
    assert REWARD.series(readings) == [(0, 0.1), (2, 0.3)]
    assert LOSS.series(readings) == [(1, 3.0), (2, 2.0)]


def test_the_last_point_counts_and_a_diverged_run_has_none() -> None:
    assert REWARD.last([(1, 0.5), (2, 0.4)]) == (2, 0.4)
    assert REWARD.last([(1, 0.5), (2, math.nan)]) is None
    assert REWARD.last([(1, 0.5), (2, math.inf)]) is None
    assert REWARD.last([]) is None


@pytest.mark.parametrize(("objective", "best"), [(REWARD, (3, 0.7)), (LOSS, (2, 0.1))])
def test_the_best_point_is_finite_whatever_stands_first(objective: Objective, best: tuple[int, float]) -> None:
    series = [(0, math.nan), (1, 0.5), (2, 0.1), (3, 0.7), (4, math.inf), (5, -math.inf), (6, math.nan)]
    assert objective.best(series) == best


def test_where_nobody_said_which_way_is_better_there_is_a_last_value_and_no_best() -> None:
    neither = Objective("foldedness", Direction.UNKNOWN)
    assert neither.last([(1, 0.5), (2, 0.4)]) == (2, 0.4) and neither.best([(1, 0.5), (2, 0.4)]) is None
    assert not neither.better(1.0, 0.0) and not neither.better(0.0, 1.0)
    assert (str(neither), str(LOSS)) == ("foldedness", "loss, minimize")


def returns(gains: float, noise: float, count: int, name: str = "return") -> list[Reading]:
    draws = random.Random(3)
    values = [gains * (1 - math.exp(-5 * n / count)) + draws.gauss(0, noise) for n in range(count)]
    return [Reading(SignalKind.STEP, n, {name: value}) for n, value in enumerate(values)]


@pytest.mark.parametrize(
    ("gains", "noise", "count", "last"),
    [
        (200.0, 40.0, 300, 20),  # episode returns
        (0.2, 0.3, 60, 12),  # a loss of single batches
        (0.0, 1.0, 25, 5),  # nothing is learnt
        (200.0, 4.0, 300, 0),
        (-2.8, 0.05, 5000, 0),  # a validation loss
        (1.0, 0.0, 40, 0),
        (0.0, 0.0, 40, 0),  # all the same
        (0.0, 1.0, 19, 0),  # too few to tell
    ],
)
def test_of_a_number_that_jumps_from_step_to_step_a_mean_is_proposed(
    gains: float, noise: float, count: int, last: int
) -> None:
    assert steadier("return", returns(gains, noise, count)) == (f"mean(return, last {last})" if last else "")


def test_what_a_steadier_objective_is_made_of() -> None:
    assert steadier("a, b", returns(0, 1, 100, "a, b")) == 'mean("a, b", last 20)'
    assert steadier("max(return)", returns(0, 1, 100)) == steadier("other", returns(0, 1, 100)) == ""
    diverged = [*returns(0, 1, 100), Reading(SignalKind.STEP, 100, {"return": math.nan})]
    assert steadier("return", diverged) == ""


def test_of_equal_points_the_first_is_best_and_nothing_is_no_best() -> None:
    assert REWARD.best([(1, 0.5), (2, 0.5)]) == (1, 0.5)
    assert REWARD.best([(1, math.nan)]) is None
