"""A command under a Runner of its own, for who waits for it: no branch, no row in a ledger, no session."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from autoresearch.lab.launch.runner_session import RUNNER
from autoresearch.records import exit_record
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.rundir import RunDir, write_atomically, write_json

LOOK_S = 0.5  # how soon a stop is noticed


def run_to_end(
    rundir: RunDir, spec: Mapping[str, Any], environ: Mapping[str, str], stopped: Callable[[], bool] = lambda: False
) -> ExitRecord | None:
    """Run what a Runner's spec says, in a run directory that exists; None where the Runner left no record.

    The Runner enforces the limits, and ends the whole process tree: also when `stopped` says so, or we are interrupted.
    """
    write_json(rundir.spec, dict(spec), durable=False, executed=True)
    data = b"\0".join(os.fsencode(f"{name}={value}") for name, value in environ.items())
    write_atomically(rundir.environment, data, mode=0o600, durable=False)
    argv = [sys.executable, "-S", "-E", "-s", str(RUNNER), str(rundir.path)]
    with (rundir.path / "runner.out").open("wb") as out:
        runner = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            while runner.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    runner.wait(LOOK_S)
                if stopped() and not rundir.stop.exists():
                    stop(rundir, "somebody asked for that")
        except BaseException:
            stop(rundir, "the command that ran it was interrupted")
            runner.wait()
            raise
    return exit_record.read(rundir)


def stop(rundir: RunDir, reason: str) -> None:
    """Ask the Runner there to end its command now."""
    write_json(rundir.stop, {"how": "now", "reason": reason}, durable=False)
