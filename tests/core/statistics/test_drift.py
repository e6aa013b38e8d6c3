"""Drift of the baseline through the night."""

from __future__ import annotations

import random

import pytest

from autoresearch.core.controller.sentences import drift

HOUR = 3600.0


def test_by_hand() -> None:
    """Slope 0.1 per hour; residuals +-0.01: se = sqrt(0.0006 / 4 / 17.5) = 0.00293, t = 34."""
    points = [(n * HOUR, 0.1 * n + 0.01 * (1, -1, -1, 1, 1, -1)[n]) for n in range(6)]
    found = drift(points)
    assert found is not None and found.runs == 6
    assert found.change == pytest.approx(0.5, abs=0.025)
    assert found.p < 1e-4


def test_too_little_is_known() -> None:
    assert drift([(n * HOUR, float(n)) for n in range(5)]) is None
    assert drift([(7.0, float(n)) for n in range(8)]) is None


def test_a_level_that_stays_and_one_without_noise() -> None:
    assert drift([(n * HOUR, 0.5) for n in range(8)]) is None
    exact = drift([(n * HOUR, 0.5 - n / 10) for n in range(8)])
    assert exact is not None and exact.change == pytest.approx(-0.7) and exact.p < 1e-6


def test_noise_alone_is_called_drift_in_one_of_twenty_campaigns() -> None:
    """2,000 nights; the standard error is 0.005."""
    rng, seen = random.Random(1), 0
    for _ in range(2000):
        points = [(t * HOUR, rng.gauss(0, 1)) for t in (0, 0.1, 0.2, 0.3, 3, 6, 9, 9.2, 9.4, 9.6)]
        seen += drift(points) is not None
    assert seen / 2000 == pytest.approx(0.05, abs=0.015)


def test_one_and_a_half_sd_in_a_night_are_seen_more_often_than_not_once_something_is_confirmed() -> None:
    """Five runs at the start, two meanwhile, six fresh ones at the end."""
    rng, seen = random.Random(2), 0
    times = [0, 0.2, 0.4, 0.6, 0.8, 3, 6, 9, 9.2, 9.4, 9.6, 9.8, 10]
    for _ in range(500):
        seen += drift([(t * HOUR, 1.5 * t / 10 + rng.gauss(0, 1)) for t in times]) is not None
    assert seen / 500 > 0.5
