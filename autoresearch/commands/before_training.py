"""`autoresearch before-training RUN_DIR`: the Runner's last act before a campaign's trainer starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands import output


def before_training(run_dir: Annotated[Path, typer.Argument(show_default=False)]) -> int:
    """See that the worktree holds the run's commit, and note what `prepare:` has changed in it."""
    from autoresearch.lab.ideas import worktree_check
    from autoresearch.records.recorded_run import RecordedRun
    from autoresearch.records.rundir import RunDir

    recorded = RecordedRun.read(RunDir(run_dir))
    worktree_check.before(recorded)
    output.say(f"trains in {recorded.spec.worktree}: {recorded.spec.commit[:12]}")
    return 0
