"""Plots of many ideas: a sample that the figures name."""

from __future__ import annotations

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.proposers.plots import MOST_TRIALS, Tried, figures

LOSS = Objective("loss", Direction.MINIMIZE)


def ideas(count: int) -> list[Tried]:
    """Newest first."""
    return [({"lr": n / 1000, "kind": n % 3 or "none"}, n % 17 / 10) for n in range(count, 0, -1)]


def test_few_ideas_are_all_drawn_and_many_are_the_newest() -> None:
    for figure in figures(LOSS, ideas(1), ideas(30)[:-1]):
        assert (figure.get("axes") or figure["keys"]) and figure["about"] == ""
    assert figures(LOSS, [], ideas(30)) != figures(LOSS, [], ideas(31))
    parallel, importance = figures(LOSS, ideas(2), ideas(1000))
    about = f"Of {MOST_TRIALS} of the 1002 measured ideas: kept, else the newest."
    assert parallel["about"] == importance["about"] == about
    assert len(parallel["axes"][0]["values"]) == MOST_TRIALS
    assert figures(LOSS, [], ideas(19))[1] is None and figures(LOSS, [], ideas(4)) == (None, None)
