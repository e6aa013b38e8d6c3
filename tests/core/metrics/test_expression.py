"""Expressions over series: what is one, what it comes to, and where a broken one is broken."""

from __future__ import annotations

import math

import pytest

from autoresearch.core.metrics.expression import ExpressionError, MetricKey, Point, curve, near_miss, parse, value
from autoresearch.core.metrics.objective import Direction, Objective, same_metric, usual_direction
from autoresearch.core.metrics.signal import Reading, SignalKind

SERIES: dict[str, list[Point]] = {
    "a": [(1, 1.0), (2, 4.0), (3, 2.0), (4, 3.0)],
    "val/pass@1": [(0, 0.1), (20, 0.5), (40, 0.3)],
    "hurt": [(1, 1.0), (2, math.nan), (3, 3.0), (4, math.inf)],
    "gone": [(1, math.nan), (2, math.nan)],
    "a, b": [(1, 7.0)],
}


def asked(text: str) -> Point | None:
    return value(parse(text), lambda key: SERIES.get(key, []))


@pytest.mark.parametrize(
    "text",
    [
        "val-core/openai/gsm8k/acc/mean@1",
        "num_pass_n_tasks(pass@4)",
        "task_pass_rate@4-all-pass",
        "eval/aime-pass@8",
        "Avg Reward: all (mean)",
        "1e5/loss",
        "- loss",
        "(pass@4)",
        "maximum(reward)",
        "max",
        "mean@1(x)",
        "last_reward - first",
        "reward/mean",
        "lr-pg_0 * 2",
        "",
    ],
)
def test_a_key_is_what_it_always_was(text: str) -> None:
    assert parse(text) == MetricKey(text)
    reading = Reading(SignalKind.STEP, 3, {text: 0.5})
    assert Objective(text).keys == (text,)
    assert Objective(text).series([reading]) == [(3, 0.5)]
    assert Objective(text).value([reading]) == (3, 0.5)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("max(val/pass@1)", (20, 0.5)),
        (" max ( val/pass@1 ) ", (20, 0.5)),
        ("min(val/pass@1)", (0, 0.1)),
        ("first(a)", (1, 1.0)),
        ("last(a)", (4, 3.0)),
        ("mean(a)", (4, 2.5)),
        ("mean(a, last 2)", (4, 2.5)),
        ("mean(a, last 99)", (4, 2.5)),
        ("max(a, first 1)", (1, 1.0)),
        ("mean(a, 2..3)", (3, 3.0)),
        ("mean(a,2 .. 3)", (3, 3.0)),
        ("max(a, 3..)", (4, 3.0)),
        ("max(a, ..1)", (1, 1.0)),
        ("max(a) - last(a)", (4, 1.0)),
        ("max(a)/2 + 0.5*min(a)", (2, 2.5)),
        ("-(max(a) - 5) * 2", (2, 2.0)),
        ("1 - last(val/pass@1)", (40, 0.7)),
        ("max(a)-last(a)-first(a)", (4, 0.0)),
        ("mean('a, b')", (1, 7.0)),
        ('max("a, b", last 3)', (1, 7.0)),
        ("'a' - 'a, b'", (4, -4.0)),
        ("max(hurt)", (3, 3.0)),
        ("min(hurt)", (1, 1.0)),
        ("mean(hurt, first 1)", (1, 1.0)),
    ],
)
def test_what_it_comes_to(text: str, wanted: Point) -> None:
    found = asked(text)
    assert found is not None
    assert found[0] == wanted[0] and found[1] == pytest.approx(wanted[1])
    last = curve(parse(text), lambda key: SERIES.get(key, []))[-1]
    assert last[1] == pytest.approx(wanted[1])


@pytest.mark.parametrize("text", ["mean(hurt)", "last(hurt)", "max(gone)", "max(a) / (first(a) - 1)", "last(gone) + 1"])
def test_what_is_not_finite_is_no_result(text: str) -> None:
    found = asked(text)
    assert found is not None and not math.isfinite(found[1])
    assert Objective(text).value(readings()) is None


@pytest.mark.parametrize("text", ["max(nothing)", "max(a) - max(nothing)", "mean(a, 90..)"])
def test_what_has_no_points_is_nothing(text: str) -> None:
    assert asked(text) is None
    assert Objective(text).value(readings()) is None


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        ("max(val/pass@1", 14, "not closed"),
        ("max()", 4, "name of a metric"),
        ("max(  , last 3)", 4, "name of a metric"),
        ("max(a) and more", 7, "expected + - * / or the end, found 'and more'"),
        ("max(a) max(b)", 7, "expected + - * /"),
        ("max(a) -", 8, "expected a number"),
        ("mean(a, lsat 5)", 8, "`last N`"),
        ("mean(a, last)", 8, "`last N`"),
        ("mean(a, last 0)", 8, "`last N`"),
        ("mean(a, last -3)", 8, "`last N`"),
        ("mean(a, last 2.5)", 8, "`last N`"),
        ("mean(a, ..)", 8, "`last N`"),
        ("mean(a, 20..10)", 7, "first is behind the last"),
        ("mean(a, b, last 5, x)", 19, "quotes"),
        ("max(mean(a))", 4, "one metric"),
        ("(max(a)", 7, "closing bracket"),
        ("max(a))", 6, "found ')'"),
        ("'a", 0, "not closed"),
        ("''", 1, "name of a metric"),
        ("mean('a' last 3)", 9, "comma"),
        ("-" * 200 + "max(a)", 30, "brackets and signs"),
        ("max(a)" + " + max(a)" * 200, 1000, "longer"),
        ("max(a) ** 2", 8, "expected a number"),
        ("max(a).__class__", 6, "expected + - * /"),
        ("max(a) + __import__('os')", 9, "expected a number"),
    ],
)
def test_what_is_wrong_and_where(text: str, position: int, said: str) -> None:
    with pytest.raises(ExpressionError, match="character") as caught:
        parse(text)
    assert said in str(caught.value)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("max(a)", [1, 4, 4, 4]),
        ("min(a)", [1, 1, 1, 1]),
        ("mean(a)", [1, 2.5, 7 / 3, 2.5]),
        ("mean(a, last 2)", [1, 2.5, 3, 2.5]),
        ("last(a)", [1, 4, 2, 3]),
        ("first(a)", [1, 1, 1, 1]),
        ("max(a) - last(a)", [0, 0, 2, 1]),
        ("max(a, 2..3)", [4, 4]),
    ],
)
def test_the_curve_is_what_it_came_to_at_each_step(text: str, wanted: list[float]) -> None:
    found = curve(parse(text), lambda key: SERIES.get(key, []))
    assert [v for _, v in found] == pytest.approx(wanted)
    assert [s for s, _ in found] == [1, 2, 3, 4][-len(wanted) :] if len(wanted) == 4 else [2, 3]


def test_two_series_meet_where_both_have_begun() -> None:
    found = curve(parse("last(val/pass@1) - first(a)"), lambda key: SERIES.get(key, []))
    assert found == [(1, -0.9), (2, -0.9), (3, -0.9), (4, -0.9), (20, -0.5), (40, -0.7)]


def readings() -> list[Reading]:
    return [Reading(SignalKind.STEP, s, {k: v}) for k, points in SERIES.items() for s, v in points]


def test_an_objective_of_an_expression() -> None:
    best = Objective("max(val/pass@1)")
    assert best.keys == best.keys_among({"val/pass@1"}) == ("val/pass@1",)
    assert best.value(readings()) == (20, 0.5)
    assert best.series(readings()) == [(0, 0.1), (20, 0.5), (40, 0.5)]
    assert best.best(best.series(readings())) == (20, 0.5)


def test_a_key_that_is_called_like_an_expression_is_that_key() -> None:
    named = [Reading(SignalKind.STEP, 1, {"max(a)": 9.0, "a": 1.0})]
    assert Objective("max(a)").value(named) == (1, 9.0)
    assert Objective("max(a)").keys_among({"max(a)", "a"}) == ("max(a)",)
    assert Objective("max(a").value([Reading(SignalKind.STEP, 1, {"max(a": 2.0})]) == (1, 2.0)


def test_the_direction_that_nobody_gave() -> None:
    usual = Objective("rmse", Direction.MINIMIZE)
    assert usual_direction("rmse", usual) is Direction.MINIMIZE
    assert usual_direction("mean(rmse, last 5)", usual) is Direction.MINIMIZE
    assert usual_direction("min(eval_loss)", None) is Direction.MINIMIZE
    assert usual_direction("max(reward)", usual) is Direction.MAXIMIZE
    for falls in ("val_bpb", "holdout_mse", "eval/rmse", "val loss", "testError", "Train NLL", "ppl", "last(wer)"):
        assert usual_direction(falls, None) is Direction.MINIMIZE
    for rises in ("episode_reward", "held-out accuracy", "val/iou", "elo", "tokens_per_second", "mAP50-95", "EpRet"):
        assert usual_direction(rises, None) is Direction.MAXIMIZE
    assert usual_direction("1 - last(rmse)", usual) is Direction.UNKNOWN
    with pytest.raises(ExpressionError):
        usual_direction("max(", None)


# Each of them was maximized once.
LOWER = (
    "rmsle mcrmse smape cost latency_ms brier ece fpr edit_distance hamming ter gap optimality_gap lpips chamfer "
    "violations collisions time_to_solve bits_per_char brier_score val/mean_squared_error reward_loss f1_gap"
)


@pytest.mark.parametrize("metric", [*LOWER.split(), "neg log likelihood"])
def test_what_is_better_when_it_is_lower_is_never_maximized(metric: str) -> None:
    assert usual_direction(metric, None) is Direction.MINIMIZE


@pytest.mark.parametrize(
    "metric",
    ["merit", "confidence", "hypertension", "x", "distance", "speed", "cost_return", "neg_mean_squared_error", "male"],
)
def test_a_name_that_says_nothing_or_both_is_not_decided(metric: str) -> None:
    assert usual_direction(metric, None) is Direction.UNKNOWN


def test_texts_that_mean_the_same() -> None:
    assert same_metric("max( val/pass@1 )", "max(val/pass@1)")
    assert same_metric("mean(a,last 5)", "mean(a, last 5)")
    assert not same_metric("mean(a, last 5)", "mean(a, last 6)")
    assert not same_metric("a b", "a  b")


def test_a_near_miss_is_told() -> None:
    assert near_miss("avg(reward)") == "mean(...)"
    assert near_miss("Max(reward)") == "max(...)"
    assert near_miss("pass(reward)") == near_miss("avg") == near_miss("max(reward)") == ""
