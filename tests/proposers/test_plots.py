"""Plots of many ideas: a sample that the figures name, and that does not change with every run."""

from __future__ import annotations

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.proposers.plots import MOST_TRIALS, STEP, Tried, figures

LOSS = Objective("loss", Direction.MINIMIZE)


def ideas(count: int) -> list[Tried]:
    """Newest first."""
    return [({"lr": n / 1000, "kind": n % 3 or "none"}, n % 17 / 10) for n in range(count, 0, -1)]


def test_few_ideas_are_all_drawn() -> None:
    for figure in figures(LOSS, ideas(1), ideas(30)[:-1]):
        assert (figure.get("axes") or figure["keys"]) and figure["about"] == ""
    assert figures(LOSS, [], ideas(30)) != figures(LOSS, [], ideas(31))


def test_many_ideas_are_a_sample_that_stays_while_new_ones_come() -> None:
    parallel, _ = figures(LOSS, ideas(2), ideas(4 * STEP))
    assert parallel["about"] == ""
    begin = figures(LOSS, ideas(2), ideas(5 * STEP))
    for count in range(5 * STEP + 1, 6 * STEP):
        now = figures(LOSS, ideas(2), ideas(count))
        assert [{**one, "about": ""} for one in now] == [{**one, "about": ""} for one in begin]
        assert f"Of {5 * STEP + 2} of the {count + 2} measured ideas" in now[1]["about"]
    assert f"Of {MOST_TRIALS} of the 1002 " in figures(LOSS, ideas(2), ideas(1000))[0]["about"]
