"""What a run trains in: its own commit, in a worktree that is its campaign's, at the start and at the end."""

from __future__ import annotations

import os
import shutil
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
    camp.bench.commit("a trainer that writes to its own repository")


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
    assert (row.status, row.failure, row.metric_value) == ("crash", "tampered", 0.4), "recorded, and not counted"
    assert state.baseline.values == []
    assert row.flags.startswith("tampered: the worktree ")


@pytest.mark.parametrize(("failures", "says"), [(1, ""), (3, "could not be checked: its worktree, after 3 attempts")])
def test_a_check_that_git_did_not_survive_says_nothing_of_the_run(camp: Any, failures: int, says: str) -> None:
    arranged(camp)
    tools = camp.bench.root / "tools"
    tools.mkdir()
    (tools / "git").write_text(
        f"#!/bin/sh\ncase \"$*\" in *'--untracked-files=no'*) n=$(ls {tools} | wc -l)\n"
        f"[ $n -gt 1 ] && [ $n -le {failures + 1} ] && touch {tools}/$n && kill -9 $$; esac\n"
        f'exec {shutil.which("git")} "$@"\n'
    )
    (tools / "git").chmod(0o755)
    camp.bench.env["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    odd = camp.bench.repo / "odd.py"
    odd.write_text(odd.read_text() + f"open({str(tools / 'armed')!r}, 'w')\n")
    camp.bench.git("commit", "-qam", "from its end on, git is killed a few times")
    state = camp.run(queue=camp.ideas(), count=1, baseline=1, confirm=False)
    (row,) = state.baseline.rows
    assert (row.status, row.failure, row.metric_value) == ("keep", "", 0.4)
    assert row.flags.startswith(says or "it changed tracked files")
