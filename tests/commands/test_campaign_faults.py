"""A campaign whose controller, runs, terminal and files are taken away at any moment: nothing lost, nothing twice."""

from __future__ import annotations

from typing import Any

BEGINNING = (
    *("campaign.drafted", "repository.hypothesis_filled", "repository.hypothesis_committed"),
    *("repository.claimed", "campaign.claimed", "campaign.committed", "repository.slot_added"),
    *("repository.cleaned", "repository.switched", "launch.claimed", "launch.session_started"),
    *("launch.branch_made", "campaign.prepared", "campaign.waits", "launch.ready", "campaign.gone"),
)
ENDING = (
    *("campaign.told", "campaign.settled", "campaign.recorded", "collect.collected", "collect.measured"),
    *("collect.results_written", "collect.row_written", "collect.flag_written"),
    *("campaign.reported", "campaign.removed"),
)


def test_undisturbed(crashes: Any) -> None:
    crashes.start("--count", 4)
    crashes.ended(4)


def killed_at(crashes: Any, points: tuple[str, ...], count: int) -> Any:
    """One campaign whose controllers kill themselves one after another, each somewhere else."""
    crashes.start("--count", count, fail=points[0])
    for number, point in enumerate(points):
        if number:
            crashes.resume(point)
        crashes.dead()
        assert crashes.view().state != "ended", f"{point} was never reached"
    crashes.resume()
    return crashes.ended(count)


def test_kill_9_wherever_a_run_is_begun(crashes: Any) -> None:
    killed_at(crashes, BEGINNING, 6)


def test_kill_9_wherever_a_run_is_settled_and_at_the_end(crashes: Any) -> None:
    killed_at(crashes, ENDING, 12)
