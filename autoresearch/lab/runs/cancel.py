"""Cancel a run that was prepared ahead and never started: record, row, directory and session are removed."""

from __future__ import annotations

import shutil
import time

from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.sessions import close_session
from autoresearch.records.rundir import RunDir, locked, read_json


def begun(rundir: RunDir) -> bool:
    """Whether it was started: its environment waits for the Runner, or the Runner has taken it."""
    there = (rundir.environment, rundir.order, rundir.runner, rundir.exit_record)
    return any(path.exists() for path in there)


def never_begun(rundir: RunDir) -> bool:
    """Whether a run was prepared ahead and never started (see `lab.launch.launch.prepare`)."""
    return not begun(rundir) and (read_json(rundir.spec) or {}).get("await_launch") == "ahead"


def take_back(rundir: RunDir, run: str, parts: Parts) -> bool:
    """Remove a prepared run whose preparing process is dead; False if it was started after all.

    Its Runner exits once nobody holds `launching`; a late one finds no spec.
    """
    while not begun(rundir):
        if not rundir.spec.exists():
            erase(rundir, run, parts)
            return True
        with locked(rundir.lock, blocking=False) as alone:
            if alone and not begun(rundir):
                rundir.spec.unlink(missing_ok=True)
                continue
        time.sleep(0.02)
    return False


def erase(rundir: RunDir, run: str, parts: Parts) -> None:
    """Remove the leftovers of a run without spec, once its Runner is gone; the index last, so that a kill is
    repaired.
    """
    if rundir.path.is_dir():
        with locked(rundir.lock):
            close_session(rundir, parts)
            shutil.rmtree(rundir.path, ignore_errors=True)
    parts.index.discard_live(run)
