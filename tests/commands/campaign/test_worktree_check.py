"""What a run trains in: its own commit, in a worktree that is its campaign's, at the start and at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

TRAINER = """
import os, sys
open("best.json", "a").write("{}\\n")
open("untracked.txt", "w").write("mine")
print("step:1 - actor/kl_loss:0.001 - actor/pg_loss:0.1 - critic/rewards/mean:0.1", flush=True)
print("step:1 - global_steps:1 - pass_n:2 - task_pass_rate@1:0.4 - mean_reward:0.4", flush=True)
"""


def arranged(camp: Any, notes: str = "", **files: str) -> None:
    repo = camp.bench.repo
    (repo / "odd.py").write_text(TRAINER)
    (repo / "best.json").write_text("{}\n")
    (repo / "prepared.txt").write_text("before\n")
    camp.bench.blueprint("ok", command="python odd.py", notes=notes)
    camp.bench.git("add", "-A")
    camp.bench.git("commit", "-qm", "a trainer that writes to its own repository")


def test_tracked_files_that_training_changes_are_flagged(camp: Any) -> None:
    arranged(camp, "- prepare: echo after > prepared.txt")
    state = camp.run(queue=camp.ideas(), count=1, baseline=2, confirm=False)
    rows = state.baseline.rows
    assert [(row.metric_value, row.status) for row in rows] == [(0.4, "keep")] * 2
    assert {row.flags for row in rows} == {"it changed tracked files: best.json"}


def test_a_preparation_that_switches_the_commit_ends_the_run_before_it_trains(camp: Any) -> None:
    arranged(camp, "- prepare: git -c advice.detachedHead=false checkout -q --force HEAD~1")
    camp.start(queue=camp.ideas(), count=1, baseline=1, confirm=False)
    state = camp.phase("paused")
    (row,) = state.baseline.rows
    assert (row.ending, row.failure, row.metric_value) == ("launch_failed", "foreign_commit", None)
    log = Path(row.log_path).read_text()
    assert f"and not at {row.commit[:12]}, the commit of its run" in log and "step:1" not in log


def test_who_moves_the_worktree_while_it_trains_is_not_measured(camp: Any) -> None:
    """As another campaign did that had the same worktree."""
    arranged(camp)
    odd = camp.bench.repo / "odd.py"
    odd.write_text(odd.read_text().replace('"step:1', '"step:2', 1) + "os.system('git checkout -q --force HEAD~1')\n")
    camp.bench.git("commit", "-qam", "it goes elsewhere")
    camp.start(queue=camp.ideas(), count=1, baseline=1, confirm=False)
    state = camp.phase("paused")
    (row,) = state.baseline.rows
    assert (row.status, row.failure, row.metric_value) == ("crash", "tampered", None)
    assert row.flags.startswith("tampered: the worktree ")
