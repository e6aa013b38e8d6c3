"""Metrics that are different; runs that had nothing to learn from, beside some that had."""

from __future__ import annotations

import math

import pytest

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.statistics.comparable import no_signal, why_not


def test_which_metrics_are_the_same() -> None:
    assert why_not("max( reward )", "max(reward)") == ""
    assert "different metrics" in why_not("reward", "loss")
    assert "different metrics" in why_not("max(reward", "loss")


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
