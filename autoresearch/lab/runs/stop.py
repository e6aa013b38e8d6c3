"""Ask a run to stop, by a file that its Runner or Follower reads, and record the request."""

from __future__ import annotations

from pathlib import Path

from autoresearch.records import events, journal, spec_file
from autoresearch.records.order_file import request_stop
from autoresearch.records.rundir import RunDir


def ask_to_stop(rundir: RunDir, reason: str, *, drain: bool = False) -> None:
    """Request the end of a run: now, or with `drain` after its current step. OSError if its directory is gone."""
    how = "drain" if drain else "now"
    spec = spec_file.read(rundir)
    events.append(rundir.events, "stop_requested", how=how, reason=reason)
    journal.append(Path(spec.result_dir), f"stop requested ({how}): {reason}")
    request_stop(rundir, reason, how=how)
