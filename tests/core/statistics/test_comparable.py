"""Numbers with one name that measure different things."""

from __future__ import annotations

import pytest

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.comparable import Measured, mixed, why_not

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
