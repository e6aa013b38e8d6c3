"""Metrics of a swarm client's own evaluations: percentages, and means over data sets."""

from __future__ import annotations

import pytest

from autoresearch.core.metrics.swarm_evaluations import Evaluations, share


def test_percentages_are_shares() -> None:
    assert share("21.67%") == pytest.approx(0.2167)
    assert (share("0.2167"), share(" 100% "), share("n/a"), share("%")) == (0.2167, 1.0, None, None)


def test_the_mean_of_a_step_waits_for_all_its_data_sets() -> None:
    found = Evaluations()
    assert found.add(0, "A", {"r": 0.2})["swarm/r"] == 0.2
    assert found.add(0, "B", {"r": 0.4}) == {"swarm/B/r": 0.4, "swarm/r": pytest.approx(0.3)}
    assert "swarm/r" not in found.add(10, "A", {"r": 0.6})
    assert found.add(10, "B", {"r": 0.8, "only": 1.0})["swarm/r"] == pytest.approx(0.7)
    assert "swarm/only" not in found.add(20, "B", {"only": 1.0}) | found.add(20, "A", {"r": 1.0})
