"""Runs of the index whose directories cannot be found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.adopt import OUT_OF_SIGHT_S, adopt_all
from autoresearch.records.index import Index, IndexEntry
from autoresearch.records.rundir import STARTING_S


@pytest.mark.parametrize(
    ("gone", "later_s", "known"),
    [
        ("project", STARTING_S + 1.0, True),  # not mounted now, or moved: it may come back
        ("project", OUT_OF_SIGHT_S + 1.0, False),
        ("project/campaigns/one", STARTING_S + 1.0, False),
        ("project/campaigns/one/run", STARTING_S + 1.0, False),
        ("project/campaigns/one/run", STARTING_S - 1.0, True),  # it may be about to begin
    ],
)
def test_what_was_removed_is_forgotten_and_what_is_out_of_sight_is_not(
    tmp_path: Path, gone: str, later_s: float, known: bool
) -> None:
    run_dir = tmp_path / "project/campaigns/one/run"
    run_dir.mkdir(parents=True)
    index = Index(tmp_path / "state")
    index.add(IndexEntry("one-abc123", "one", "ajet_one", str(run_dir), str(tmp_path), created=1000.0))
    shutil.rmtree(tmp_path / gone)
    parts = Parts({}, index, launcher=lambda _: pytest.fail("no session is asked for"), clock=lambda: 1000.0 + later_s)
    assert list(adopt_all(parts)) == []
    assert bool(index.live()) is known
