"""Early stopping from the curve: what ends a run, what must not, and what a replay says of it."""

from __future__ import annotations

import math
import random

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.statistics.pruning import Curve, HalvingRule, MedianRule, PruningRule, value_at
from tests.bench.replay import first_stop, replay

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
        (HalvingRule(warmup=5, eta=2), curve(0.2), False),  # second of five: the best two stay
        (HalvingRule(warmup=5, eta=2), curve(0.1), True),
        (HalvingRule(warmup=5, eta=3), curve(0.2), True),  # the best one stays
        (HalvingRule(warmup=5, eta=3), curve(0.3), False),  # a tie stays
        (HalvingRule(warmup=5, eta=6), curve(0.0), False),  # fewer than eta at the rung
        (HalvingRule(warmup=10, eta=3), curve(0.0), False),
        (HalvingRule(warmup=5, eta=2), curve(0.9, 0.1), False),
        (HalvingRule(warmup=5, eta=3), curve(0.1, 0.1), False),  # rungs are 10 and 30: 20 is none
        (HalvingRule(warmup=5, eta=3), curve(0.1, 0.1, 0.1), True),
    ],
)
@pytest.mark.parametrize("objective", [UP, DOWN], ids=["up", "down"])
def test_what_ends_a_run(rule: PruningRule, shown: Curve, ends: bool, objective: Objective) -> None:
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


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rule", [MedianRule(warmup=35, least=1), HalvingRule(warmup=35, eta=2)])
def test_no_rule_speaks_before_the_warm_up_is_over(rule: PruningRule, seed: int) -> None:
    chance = random.Random(seed)
    curves = [curve(*(chance.random() for _ in range(8))) for _ in range(30)]
    found = replay(rule, curves, UP)
    assert found.stopped
    assert min(stop.step for stop in found.stopped.values()) >= 40
    assert max(stop.step for stop in found.stopped.values()) < 80, "there is nothing to save at the end"


@pytest.mark.parametrize("seed", range(20))
def test_the_same_run_is_judged_the_same_whatever_the_direction(seed: int) -> None:
    chance = random.Random(seed)
    curves = [curve(*(chance.random() for _ in range(6))) for _ in range(12)]
    for rule in (MedianRule(warmup=0), HalvingRule(warmup=0)):
        up, down = replay(rule, curves, UP), replay(rule, [mirrored(c) for c in curves], DOWN)
        assert up.stopped.keys() == down.stopped.keys()
        assert (up.winner, up.lost, up.saved) == (down.winner, down.lost, down.saved)


SLOW_STARTER = curve(0.0, 0.0, 0.0, 0.9)
STEADY = [curve(0.1, 0.2, 0.3, 0.4 + n / 100) for n in range(4)]


def test_a_replay_that_kills_the_winner_says_so() -> None:
    found = replay(MEDIAN, [*STEADY, SLOW_STARTER], UP)
    assert (found.winner, found.best_left, found.kills_winner) == (4, 3, True)
    assert found.lost == pytest.approx(0.9 - 0.43)
    assert found.saved == pytest.approx(30 / 200)
    assert "but ended the winner (0 at step 10, behind 0.1 of 4 other runs), a loss of 0.47" in found.sentence()


def test_a_replay_with_a_longer_warm_up_spares_it() -> None:
    found = replay(MedianRule(warmup=30), [*STEADY, SLOW_STARTER], UP)
    assert not found.kills_winner
    assert found.sentence() == "would have ended 0 runs and saved 0% of the steps; the winner would have lived"


def test_a_run_that_was_ended_is_no_measure_beyond_its_end() -> None:
    low = curve(0.0, 0.0, 0.0, 0.0)
    rule = MedianRule(warmup=5, least=4)
    found = replay(rule, [*STEADY, low, low, low, low, curve(0.15, 0.1, 0.1, 0.5)], UP)
    assert set(found.stopped) == {4, 5, 6, 7, 8}
    assert found.stopped[8].step == 20, "at step 10 the low ones count, from 20 on only the steady"


def test_a_replay_of_nothing() -> None:
    assert replay(MEDIAN, [], UP).sentence() == "would have ended 0 runs and saved 0% of the steps; no run has a result"
    assert replay(MEDIAN, [curve(math.nan)], UP).winner is None


def test_the_last_validation_is_never_judged() -> None:
    assert first_stop(MedianRule(warmup=25), curve(0.0, 0.0, 0.0), FOUR, UP) == (3, None)
