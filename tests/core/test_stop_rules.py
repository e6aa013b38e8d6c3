"""Stop rules: met or not, the first that is, and how much is left, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoresearch.core.campaign.spec import Rules, StopFacts, stand
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.text.numbers import span

UP = Objective("pass@1", Direction.MAXIMIZE)
DOWN = Objective("loss", Direction.MINIMIZE)
FACTS = StopFacts(attempted=17, best=0.5, gpu_hours=3.0, now=1000.0, run_s=60.0)


@pytest.mark.parametrize(
    ("rules", "facts", "met"),
    [
        (Rules(), {}, ""),
        (Rules(count=18), {}, ""),
        (Rules(count=17), {}, "17/17 ideas attempted"),
        (Rules(count=16), {}, "17/16 ideas attempted"),
        (Rules(target=0.6), {}, ""),
        (Rules(target=0.5), {}, "pass@1 = 0.5 (search mean) reaches the target 0.5"),
        (Rules(target=0.0), {"best": None}, ""),
        (Rules(deadline=1060.0), {}, ""),
        (Rules(deadline=1059.0), {}, "59s are left, too short for another run of 1m"),
        (Rules(deadline=1000.0), {"run_s": 0.0}, "the deadline has passed"),
        (Rules(deadline=1001.0), {"run_s": 0.0}, ""),
        (
            Rules(deadline=4600.0),
            {"run_s": 1800.0, "reserve_s": 3600.0},
            "1h are left, too short for another run of 30m and 1h for the confirmation",
        ),
        (Rules(budget_gpu_hours=4.0), {"run_gpu_hours": 1.0}, ""),
        (Rules(budget_gpu_hours=4.0), {"run_gpu_hours": 1.1}, "3.00 of 4 GPU hours are spent"),
        (
            Rules(budget_gpu_hours=5.0),
            {"run_gpu_hours": 1.0, "reserve_gpu_hours": 1.5},
            "3.00 of 5 GPU hours are spent, 2.00 are left for the confirmation",
        ),
        (Rules(budget_gpu_hours=6.0), {"run_gpu_hours": 1.0, "reserve_gpu_hours": 1.5}, ""),
        (Rules(budget_gpu_hours=3.0), {}, "3.00 of 3 GPU hours are spent"),
        (Rules(count=17, target=0.1, deadline=1.0), {}, "17/17 ideas attempted"),
        (Rules(count=99, target=0.1, deadline=1.0), {}, "pass@1 = 0.5 (search mean) reaches the target 0.1"),
    ],
)
def test_what_is_met(rules: Rules, facts: dict[str, float | None], met: str) -> None:
    found = stand(rules, replace(FACTS, **facts), UP)
    assert found.met == met
    assert found.sentence.startswith(f"stop condition met: {met}" if met else "17")


def test_a_target_downwards() -> None:
    assert stand(Rules(target=0.5), FACTS, DOWN).met
    assert stand(Rules(target=0.6), FACTS, DOWN).met
    assert not stand(Rules(target=0.4), FACTS, DOWN).met


def test_what_is_left() -> None:
    rules = Rules(count=24, deadline=1000.0 + 6 * 3600 + 12 * 60, budget_gpu_hours=40.0, target=0.8)
    found = stand(rules, FACTS, UP)
    assert found.sentence == ("17/24 attempted, 6h12m remaining, 3.00/40 GPU hours, best 0.5 (search mean), target 0.8")
    assert (found.remaining_ideas, found.remaining_s, found.beside_count[:5]) == (7, 22320.0, "6h12m")
    late = stand(rules, replace(FACTS, attempted=30, now=1e9, best=None), UP)
    assert (late.remaining_ideas, late.met, late.beside_count) == (0, "30/24 ideas attempted", "")
    nothing = stand(Rules(), FACTS, UP)
    assert (nothing.remaining_ideas, nothing.remaining_s, nothing.remaining) == (None, None, "17 attempted")


def test_spans() -> None:
    assert [span(s) for s in (0, 0.01, 0.25, 59.9, 60, 200, 3599, 3600, 22320)] == [
        *("0s", "0.1s", "0.2s", "59s", "1m", "3m20s", "59m59s", "1h", "6h12m")
    ]
