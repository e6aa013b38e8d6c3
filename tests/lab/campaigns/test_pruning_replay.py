"""What early stopping would have done to a past campaign: whom it ends, what that saves, whether the winner lives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.errors import NotFoundError
from autoresearch.lab.campaign_report.pruning_replay import past_runs, replays, warmups_of
from autoresearch.records.ledger import Ledger

pytestmark = pytest.mark.system


def redraw(made: Any, slug: str, *values: float) -> None:
    """Another curve for the first run of an idea: validations at 0, 10, 20 ..."""
    row = next(r for r in Ledger(made.place.ledger).rows() if r.run_id == f"{slug}-000001")
    lines = [json.dumps({"step": 10 * n, "data": {"task_pass_rate@1": v}}) for n, v in enumerate(values)]
    (Path(row.run_dir) / "metrics.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture
def night(campaign: Callable[..., Any]) -> Any:
    """The baseline at 0.5, a flat idea, a bad one, and a slow starter that wins and is re-tested."""
    made = campaign()
    made.idea("flat")
    made.run("flat", 0.51, "discard")
    made.idea("bad")
    made.run("bad", 0.2, "discard")
    redraw(made, "bad", 0.1, 0.1, 0.1, 0.1, 0.2)
    made.idea("slow")
    made.run("slow", 0.9, "discard")
    redraw(made, "slow", 0.1, 0.1, 0.3, 0.8, 0.9)
    for _ in range(3):
        made.run("slow", 0.9, "keep")
    return made


def test_a_short_warm_up_kills_the_winner_and_a_longer_one_does_not(night: Any) -> None:
    (early,) = replays(night.state(), ("median",), 5)
    assert early.winner == "slow" and early.kills_winner and early.kills_best_run
    assert {e.slug: e.step for e in early.ended} == {"bad": 10, "slow": 10}
    assert early.loss == pytest.approx(0.9 - 0.52), "the best that is left is a run of the baseline"
    (late,) = replays(night.state(), ("median",), 25)
    assert {e.slug for e in late.ended} == {"bad"} and not late.kills_winner and not late.kills_best_run


def test_time_that_is_saved(night: Any) -> None:
    (late,) = replays(night.state(), ("median",), 25)
    assert late.ended[0].step == 30 and late.saved_s == pytest.approx(300 / 4)
    assert late.saved_share == pytest.approx(75 / 1800), "of six runs of five minutes; re-tests are not looked at"


def test_the_baseline_is_compared_with_and_never_ended(night: Any) -> None:
    runs = past_runs(night.state())
    assert [(one.slug, one.judged) for one in runs] == [*[("baseline", False)] * 3, ("flat", True), ("bad", True),
                                                         ("slow", True)]  # fmt: skip
    redraw(night, "baseline", 0.0, 0.0, 0.0, 0.0, 0.0)
    for found in replays(night.state()):
        assert not {e.slug for e in found.ended} & {"baseline"}


def test_both_rules_and_warm_ups_that_fit_the_curves(night: Any) -> None:
    found = replays(night.state())
    assert {one.rule for one in found} == {"median", "halving"}
    assert sorted({one.warmup for one in found}) == warmups_of(past_runs(night.state())) == [0, 10, 20, 30]
    assert json.loads(json.dumps([one.to_json() for one in found], allow_nan=False))


def test_nothing_kept_is_no_winner(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("flat")
    made.run("flat", 0.51, "discard")
    (found,) = replays(made.state(), ("median",), 0)
    assert found.winner is None and not found.kills_winner and found.best_run == "baseline-000002"


def test_nothing_to_replay(campaign: Callable[..., Any]) -> None:
    made = campaign()
    with pytest.raises(NotFoundError, match="no idea whose first run"):
        replays(made.state())
