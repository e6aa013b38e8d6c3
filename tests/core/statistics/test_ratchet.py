"""What noise alone gives a loop that keeps whatever beats its best single run."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.statistics.ratchet import LoopRow, ratchet

DOWN = Objective("loss", Direction.MINIMIZE)


def loop(values: list[float | None], names: list[str] | None = None) -> list[LoopRow]:
    """A greedy loop that minimises, over these values in turn."""
    best, attempts = float("inf"), []
    for number, value in enumerate(values):
        kept = value is not None and value < best
        best = value if kept and value is not None else best
        attempts.append(LoopRow(names[number] if names else f"c{number}", value, kept))
    return attempts


def test_as_many_steps_as_noise_gives_by_whatever_distribution() -> None:
    draws = random.Random(1)
    for draw in (lambda: draws.gauss(1.0, 0.01), lambda: draws.expovariate(1.0)):
        found = [ratchet(DOWN, loop([draw() for _ in range(50)])) for _ in range(400)]
        assert fmean(len(one.steps) for one in found) == pytest.approx(found[0].by_noise, abs=0.25)
        assert fmean(one.more_than_noise for one in found) <= 0.08
    assert found[0].by_noise == pytest.approx(3.5, abs=0.01) and found[0].by_noise_at_most == 6


def test_gains_are_steps_over_the_best_so_far() -> None:
    attempts = loop([1.0, 1.1, None, 0.8, 0.9, 0.7])
    attempts[4] = LoopRow("c4", 0.9, kept=True)  # it was kept though it is no better
    found = ratchet(DOWN, attempts)
    assert [(step.over.name, step.attempt.name, round(step.gain, 6)) for step in found.steps] == [
        ("c0", "c3", 0.2),
        ("c3", "c5", 0.1),
    ]
    assert (found.measured, found.kept) == (5, 4)


def test_the_noise_is_that_of_repeated_attempts_where_there_are_any() -> None:
    draws = random.Random(2)
    repeated = [LoopRow("same", 1 + draws.gauss(0, 0.02), kept=False) for _ in range(40)]
    found = ratchet(DOWN, [LoopRow("first", 1.0, kept=True), *repeated])
    assert found.replicated and found.sd == pytest.approx(0.02, rel=0.25)


def test_else_it_is_as_near_as_attempts_on_the_same_code_lie() -> None:
    draws = random.Random(3)
    others = [LoopRow(f"c{n}", 1 + draws.gauss(0, 0.02) + (0.5 if n % 8 == 0 else 0), kept=False) for n in range(60)]
    found = ratchet(DOWN, [LoopRow("first", 1.0, kept=True), *others])
    assert not found.replicated and found.sd == pytest.approx(0.02, rel=0.6)
    assert ratchet(DOWN, loop([1.0, 1.1, 0.9])).sd is None, "too few to tell"
