"""Drift of the baseline through the night."""

from __future__ import annotations

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
