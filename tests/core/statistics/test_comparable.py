"""Numbers with one name that measure different things; runs that had nothing to learn from, beside some that had."""

from __future__ import annotations

import math

import pytest

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.comparable import Measured, mixed, no_signal, why_not

CLASSIC, SWARM = (Measured(trainer, "task_pass_rate@1") for trainer in ("agentjet", "agentjet_swarm"))


@pytest.mark.parametrize("metric", ["task_pass_rate@1", "max(task_pass_rate@4)", "mean(task_pass_rate@1, last 3)"])
def test_pass_at_k_of_the_two_modes_of_agentjet(metric: str) -> None:
    told = why_not(Measured("agentjet", metric), Measured("agentjet_swarm", metric))
    assert "reward >= 1" in told and "reward > 0" in told
    assert why_not(Measured("agentjet", metric), Measured("agentjet", metric)) == ""
    assert why_not(Measured("agentjet", metric), Measured("tinygrpo", metric))


def test_what_means_the_same_everywhere() -> None:
    assert why_not(Measured("agentjet", "mean_reward"), Measured("agentjet_swarm", "mean_reward")) == ""
    assert why_not(Measured("verl", "val-core/x/acc/mean@1"), Measured("agentjet", "val-core/x/acc/mean@1")) == ""
    assert why_not(Measured("trl", "max( reward )"), Measured("trl", "max(reward)")) == ""
    assert "different metrics" in why_not(Measured("trl", "reward"), Measured("trl", "loss"))
    assert "different metrics" in why_not(Measured("trl", "max(reward"), Measured("trl", "loss"))


def test_rows_that_stand_together() -> None:
    def row(trainer: str, value: float | None = 0.5, metric: str = "task_pass_rate@1") -> LedgerRow:
        return LedgerRow(1, metric_name=metric, metric_value=value, trainer=trainer)

    assert mixed([row("agentjet"), row("agentjet"), row("verl", metric="reward")]) == ""
    assert mixed([row("agentjet"), row("agentjet_swarm", None)]) == ""
    assert "not to be compared" in mixed([row("agentjet"), row("agentjet_swarm")])
    assert "not to be compared" in mixed([row("agentjet"), row("tinygrpo")])
    assert mixed([]) == ""


def series(**columns: list[float]) -> list[Reading]:
    names = [name.replace("__", "/") for name in columns]
    rows = zip(*columns.values(), strict=True)
    return [Reading(SignalKind.STEP, n, dict(zip(names, row, strict=True))) for n, row in enumerate(rows, 1)]


@pytest.mark.parametrize(
    ("readings", "said"),
    [
        (series(critic__rewards__mean=[0.5] * 6), "critic/rewards/mean is 0.5 in all 6 steps"),
        (series(critic__rewards__mean=[0.5] * 4), ""),  # too few to say
        (series(critic__rewards__mean=[0.5, 0.5, 0.5, 0.5, 0.501]), ""),
        (series(reward=[0.0] * 5), "reward is 0 in all 5 steps"),
        (series(reward=[math.nan] * 9), ""),  # that is another trouble
        (series(rollout__raw_reward=[1.0] * 5, train__loss=[0.1, 0.2, 0.3, 0.4, 5]), "rollout/raw_reward is 1 in"),
        (series(actor__grad_norm=[0.0] * 3), "actor/grad_norm is 0 in all 3 steps"),
        (series(actor__grad_norm=[0.0, 0.0, 1e-9]), ""),
        (series(grad_norm=[0.3] * 9), ""),  # a constant gradient is one
        (series(loss=[0.0] * 9), ""),  # GRPO's loss is 0 where all is well
        ([], ""),
    ],
)
def test_no_signal(readings: list[Reading], said: str) -> None:
    found = no_signal(readings)
    assert found.startswith(said) and bool(found) is bool(said)
