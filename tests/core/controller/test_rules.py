"""The stop rules at a moment: how long a run may take, when the circuit breaker trips."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.controller import confirmation_rounds, rules


def bare(made: Any) -> Any:
    """The campaign without its baseline's rows."""
    state = made.state()
    state.baseline.runs.clear()
    state.baseline.rows.clear()
    return state


def test_how_long_a_run_may_take(records: Callable[..., Any]) -> None:
    made = records(timeout_s=600.0)
    assert rules.expected_run_s(bare(made)) == 0.0  # a limit is no expectation
    assert rules.expected_run_s(made.state()) == 300.0 * rules.MARGIN
    short = made.state()
    assert rules.expected_run_s(replace(short, spec=replace(short.spec, timeout_s=310.0))) == 310.0


def test_the_search_leaves_time_for_the_smallest_proof(records: Callable[..., Any]) -> None:
    made = records()
    assert rules.reserve_s(made.state(), 100.0) == 0.0  # nothing is kept that could be claimed
    made.idea("good")
    made.run("good", 0.7)
    state = made.state()
    assert rules.reserve_s(state, 100.0) == 8 * 100.0
    slots = replace(state, spec=replace(state.spec, parallel=3))
    assert rules.reserve_s(slots, 100.0) == 3 * 100.0  # whole waves of three
    assert rules.reserve_s(replace(state, spec=replace(state.spec, confirm=False)), 100.0) == 0.0
    for share, reserved in ((1 / 3, 800.0), (0.34, 0.0)):  # in a short campaign, it would end the search at its start
        short = state.spec.with_rules({"deadline": state.spec.created + 800 / share})
        assert rules.reserve_s(replace(state, spec=short), 100.0) == reserved
    for budget, reserved in ((50.0, 8.0), (5.0, 0.0)):
        hours = replace(state.spec, gpus_per_run=2).with_rules({"budget_gpu_hours": budget})
        facts = rules.facts(replace(state, spec=hours), made.clock)
        assert facts.reserve_gpu_hours == pytest.approx(facts.run_gpu_hours * reserved)


@pytest.mark.parametrize(("left_s", "runs"), [(3750, 10), (3749, 9), (300, 0), (-1, -1)])
def test_how_many_runs_fit_one_after_the_other(records: Callable[..., Any], left_s: float, runs: int) -> None:
    """A run takes 375 s: 300 s, and a quarter more."""
    state = records().state()
    now = state.spec.rules.deadline - left_s
    assert rules.waves_left(state, now) == runs
    free = replace(state, spec=replace(state.spec, rules=replace(state.spec.rules, deadline=None)))
    assert rules.waves_left(free, now) == math.inf


@pytest.mark.parametrize(
    ("slots", "waves", "sizes"),
    [
        (1, 16, (4, 6, 8)),
        (1, 11, (4,)),
        (1, 7, None),
        (2, 7, (4, 6)),
        (3, 7, (4, 6, 8)),  # 3 waves to the first look, 2 to each other one: a look is made when all its runs are over
        (3, 6, (4, 6)),
        (8, 3, (4, 6, 8)),
        (8, 0, None),
        (1, math.inf, (4, 6, 8)),
    ],
)
def test_a_round_is_planned_to_end_in_time(
    slots: int, waves: float, sizes: tuple[int, ...] | None, records: Callable[..., Any]
) -> None:
    made = records(parallel=slots)
    made.idea("good")
    for value in (0.9, 0.91, 0.92, 0.9):
        made.run("good", value)
    planned, _ = confirmation_rounds.plan_in_time(made.state(), waves)
    assert (planned and planned.sizes) == sizes


@pytest.mark.parametrize(
    ("deaths", "trips"),
    [
        ([("oom", 0.1)] * 3, True),
        ([("oom", 0.1)] * 2, False),
        ([("oom", 0.1), ("oom", 0.1), ("nccl", 0.1)], False),  # not alike
        ([("oom", 0.1), ("oom", 4.0), ("oom", 0.1)], False),  # not fast: a good run takes 5 minutes
        ([("oom", 4.0), ("oom", 0.1), ("oom", 0.1), ("oom", 0.1)], True),
        ([("constraint_broken", 0.1)] * 3, False),  # measured, and none that died
    ],
)
def test_the_circuit_breaker(records: Callable[..., Any], deaths: list[tuple[str, float]], trips: bool) -> None:
    made = records()
    for number, (kind, minutes) in enumerate(deaths):
        made.idea(f"dies-{number}")
        made.run(f"dies-{number}", None, "crash", failure=kind, elapsed_min=minutes)
    state = made.state()
    why = rules.tripped(state, 0.0)
    assert bool(why) is trips
    assert not trips or why == "the last 3 ideas died alike within 2.5 min: oom"
    assert rules.tripped(state, made.clock + 1000) == ""  # deaths before somebody said `resume` are forgiven
