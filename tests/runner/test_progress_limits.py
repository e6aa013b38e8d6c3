"""The first-step clock and the stall rule, as arithmetic."""

from __future__ import annotations

from typing import Any

from autoresearch.runner.listener import STALL_FACTOR, ProgressLimits
from autoresearch.runner.spec import Spec

INF = float("inf")


def pace(rule: str = "", **limits: Any) -> ProgressLimits:
    limits = {"first_step_s": 100.0, "first_step_cap_s": 1000.0} | limits
    made = ProgressLimits(Spec({"run": "x", "command": "x", "limits": limits, "first_step": rule}))
    made.start(50.0)
    return made


def test_overlapping_holds_count_once() -> None:
    p = pace()
    p.moved(60.0, 30.0)
    p.moved(70.0, 30.0)
    p.moved(71.0, 5.0)
    assert p.first_deadline() == 190.0


def test_the_suspension_is_capped_in_all() -> None:
    p = pace(first_step_cap_s=40.0)
    for at in range(60, 2000, 10):
        p.moved(float(at), 30.0)
    assert p.first_deadline() == 190.0


def test_the_end_of_the_boot_takes_back_what_is_left_of_its_suspension() -> None:
    p = pace(first_step_cap_s=40.0)
    p.moved(60.0, 120.0)
    p.moved(90.0, 120.0)
    p.ready(93.0)
    assert p.first_deadline() == 183.0
    p.ready(94.0)
    p.moved(100.0, 30.0)
    assert p.first_deadline() == 190.0  # the cap is that of the time that was suspended indeed


def test_a_strict_limit_is_never_suspended() -> None:
    p = pace(strict_first_step=True)
    p.moved(60.0, 1000.0)
    assert p.first_deadline() == 150.0


def test_the_first_step_ends_the_clock() -> None:
    p = pace()
    assert p.step(60.0, 1, 0.5)
    assert not p.step(61.0, 2, 0.6)
    assert (p.first_s, p.first_step, p.kl, p.first_deadline()) == (10.0, 1, 0.5, INF)


def test_with_the_kl_rule_only_a_step_with_kl_is_first() -> None:
    p = pace("kl")
    assert not p.step(60.0, 1, None)
    assert p.first_deadline() == 150.0
    assert p.step(70.0, 2, 0.1)
    assert (p.first_s, p.first_step, p.steps) == (20.0, 2, 2)


def test_a_stall_is_reported_from_the_third_step_on() -> None:
    p = pace()
    p.step(60.0, 1, None)
    p.step(80.0, 2, None)
    assert p.report_deadline() == INF
    p.step(100.0, 3, None)
    assert p.report_deadline() == 100.0 + STALL_FACTOR * 20.0
    p.moved(150.0, 0.0)  # validation or progress is a sign of life too
    assert p.report_deadline() == 150.0 + STALL_FACTOR * 20.0
    p.stalled = True
    assert p.report_deadline() == INF


def test_the_stall_limit_counts_from_the_first_step_on() -> None:
    p = pace(stall_s=20.0)
    assert p.stall_deadline() == INF
    p.step(60.0, 1, None)
    assert p.stall_deadline() == 80.0
    assert p.next_deadline() == 80.0
