"""What a metric is, what it comes to, which value is better, and which one counts."""

from __future__ import annotations

import math
import random

import pytest

from autoresearch.core.metrics.objective import (
    Direction,
    ExpressionError,
    Objective,
    Point,
    Reduced,
    near_miss,
    parse,
    same_metric,
    steadier,
    usual_direction,
)
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


SERIES: dict[str, list[Point]] = {
    "a": [(1, 1.0), (2, 4.0), (3, 2.0), (4, 3.0)],
    "val/pass@1": [(0, 0.1), (20, 0.5), (40, 0.3)],
    "hurt": [(1, 1.0), (2, math.nan), (3, 3.0), (4, math.inf)],
    "gone": [(1, math.nan), (2, math.nan)],
    "a, b": [(1, 7.0)],
}


def asked(text: str) -> Point | None:
    found = parse(text)
    return found.of(SERIES.get(found.key, []))


def curve(text: str) -> list[Point]:
    found = parse(text)
    return found.curve(SERIES.get(found.key, []))


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
    assert parse(text) == Reduced("last", text)
    reading = Reading(SignalKind.STEP, 3, {text: 0.5})
    assert Objective(text).key == text
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
        ("mean('a, b')", (1, 7.0)),
        ('max("a, b", last 3)', (1, 7.0)),
        ("'a, b'", (1, 7.0)),
        ("max(hurt)", (3, 3.0)),
        ("min(hurt)", (1, 1.0)),
    ],
)
def test_what_it_comes_to(text: str, wanted: Point) -> None:
    found = asked(text)
    assert found is not None
    assert found[0] == wanted[0] and found[1] == pytest.approx(wanted[1])
    last = curve(text)[-1]
    assert last[1] == pytest.approx(wanted[1])


@pytest.mark.parametrize("text", ["mean(hurt)", "last(hurt)", "max(gone)"])
def test_what_is_not_finite_is_no_result(text: str) -> None:
    found = asked(text)
    assert found is not None and not math.isfinite(found[1])
    assert Objective(text).value(readings()) is None


@pytest.mark.parametrize("text", ["max(nothing)", "mean(nothing, last 5)"])
def test_what_has_no_points_is_nothing(text: str) -> None:
    assert asked(text) is None
    assert Objective(text).value(readings()) is None


@pytest.mark.parametrize(
    "text",
    [
        *("max(val/pass@1", "max()", "max(  , last 3)", "max(a) and more", "max(a) max(b)", "max(a) -", "(max(a)"),
        *(f"mean(a, {window})" for window in ("lsat 5", "last", "last 0", "last -3", "2..3")),
        *("mean(a, b, last 5, x)", "max(mean(a))", "max(a))", "'a", "''", "mean('a' last 3)", "max(a).__class__"),
        *("max(a) - last(b)", "0.5 * mean(a) + 0.5 * mean(b)", "-max(a)", "1 - last(a)"),
        *("1e3*max(a)", "+1.5e-3 * max(a)"),
    ],
)
def test_what_is_wrong(text: str) -> None:
    with pytest.raises(ExpressionError, match="is not understood: write a key as it is written") as caught:
        parse(text)
    assert str(caught.value).startswith(repr(text))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("max(a)", [1, 4, 4, 4]),
        ("min(a)", [1, 1, 1, 1]),
        ("mean(a)", [1, 2.5, 7 / 3, 2.5]),
        ("mean(a, last 2)", [1, 2.5, 3, 2.5]),
        ("last(a)", [1, 4, 2, 3]),
        ("first(a)", [1, 1, 1, 1]),
    ],
)
def test_the_curve_is_what_it_came_to_at_each_step(text: str, wanted: list[float]) -> None:
    found = curve(text)
    assert [v for _, v in found] == pytest.approx(wanted)
    assert [s for s, _ in found] == [1, 2, 3, 4]


def readings() -> list[Reading]:
    return [Reading(SignalKind.STEP, s, {k: v}) for k, points in SERIES.items() for s, v in points]


def test_an_objective_of_an_expression() -> None:
    best = Objective("max(val/pass@1)")
    assert best.key == best.key_among({"val/pass@1"}) == "val/pass@1"
    assert best.value(readings()) == (20, 0.5)
    assert best.series(readings()) == [(0, 0.1), (20, 0.5), (40, 0.5)]
    assert best.best(best.series(readings())) == (20, 0.5)


def test_a_key_that_is_called_like_an_expression_is_that_key() -> None:
    named = [Reading(SignalKind.STEP, 1, {"max(a)": 9.0, "a": 1.0})]
    assert Objective("max(a)").value(named) == (1, 9.0)
    assert Objective("max(a)").key_among({"max(a)", "a"}) == "max(a)"
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
