"""`autoresearch before-training RUN_DIR`: the Runner's last act before a campaign's trainer starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands import output


def before_training(run_dir: Annotated[Path, typer.Argument(show_default=False)]) -> int:
    """See that the worktree holds the run's commit, and note what `prepare:` has changed in it."""
    from autoresearch.lab.campaigns import worktree_check
    from autoresearch.records import spec_file
    from autoresearch.records.rundir import RunDir

    rundir = RunDir(run_dir)
    spec = spec_file.read(rundir)
    worktree_check.before(rundir, spec)
    output.say(f"trains in {spec.worktree}: {spec.commit[:12]}")
    return 0
