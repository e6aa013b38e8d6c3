"""Faults of a campaign that need a file system of the test's own: its disk is full, and has room again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.ledger import Ledger

pytestmark = pytest.mark.real


def complains(crashes: Any) -> bool:
    """Whether the controller says that the disk is full: in its pane, for its log may lie on that disk."""
    (session,) = [name for name in crashes.sessions() if "campaign" in name]
    shown = crashes.bench.tmux("capture-pane", "-p", "-S", "-", "-t", f"={session}:").stdout
    return "No space left" in " ".join(shown.split())


@pytest.mark.parametrize("killed", [False, True])
def test_the_disk_of_the_records_is_full_while_a_run_ends(crashes: Any, disk: Any, killed: bool) -> None:
    """Nothing is lost, nothing counts against an idea; it goes on by itself when there is room again."""
    place = disk(crashes.bench.repo / "reports", "8m")
    crashes.recipe(mode="hold")
    crashes.start("--count", 3)
    run = crashes.running("baseline")
    rest = disk.fill(place)
    crashes.go.touch()
    crashes.bench.until(lambda: (Path(run.run_dir) / "exit.json").exists())
    if killed:
        crashes.kill()
    else:
        crashes.bench.until(lambda: complains(crashes))
    assert not list(Ledger(crashes.place.ledger).rows())
    rest.unlink()
    if killed:
        crashes.resume()
    state = crashes.ended(3)
    assert [row.ending for row in state.rows] == ["finished"] * 3, crashes.said()


def test_the_disk_of_the_records_fills_up_between_runs(crashes: Any, disk: Any) -> None:
    """Neither an idea nor a run is spent on it: what could not be made is made later."""
    place = disk(crashes.bench.repo / "reports", "8m")
    crashes.recipe(mode="hold")
    crashes.start("--count", 4, parallel=1)
    crashes.running("baseline")
    crashes.bench.ask("campaign", "pause")
    crashes.go.touch()
    crashes.bench.until(lambda: crashes.state().rows)
    crashes.bench.ask("campaign", "resume")
    rest = disk.fill(place)
    crashes.bench.until(lambda: complains(crashes))
    assert crashes.place.controlled
    rest.unlink()
    state = crashes.ended(4)
    assert [row.ending for row in state.rows] == ["finished"] * 4, crashes.said()


def test_the_disk_of_the_results_is_full(crashes: Any, disk: Any) -> None:
    place = disk(crashes.bench.root / "results", "4m")
    crashes.recipe(mode="hold")
    crashes.start("--count", 3)
    crashes.running("baseline")
    rest = disk.fill(place)
    crashes.go.touch()
    crashes.bench.until(lambda: "No space left on device): it goes on by itself when there is space" in crashes.said())
    assert crashes.place.controlled
    rest.unlink()
    state = crashes.ended(3)
    assert [row.ending for row in state.rows] == ["finished"] * 3, crashes.said()
