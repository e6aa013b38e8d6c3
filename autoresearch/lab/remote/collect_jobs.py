"""What a Follower does for runs that are over: has them collected, and keeps in mind which jobs are to be forgotten."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from autoresearch.core.run.job_launcher import Handle
from autoresearch.records.rundir import RunDir, read_json, write_json

# A controller, a `run` or a `wait` that is awake collects within milliseconds; and it may be starting the next run.
_LATER = 'sleep 3; [ -e "$0" ] || exec nice -n 10 "$@"'


def collect_later(rundir: RunDir, environ: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
    """Start the collector of a run, detached: it waits first whether somebody else collects. Raises OSError."""
    words = (read_json(rundir.spec) or {}).get("collector") or []
    if not words:
        return None
    with (rundir.path / "collect.log").open("ab") as log:
        return subprocess.Popen(
            ["sh", "-c", _LATER, str(rundir.collected), *map(str, words)],
            env={name: value for name, value in environ.items() if name != "AUTORESEARCH_RUN_ID"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


class Submissions:
    """Jobs that their launcher still keeps, with their run directories: a file for each in the Follower's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "jobs"

    def note(self, handle: Handle, rundir: RunDir) -> None:
        """Record a job. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / handle.run, {"handle": asdict(handle), "run_dir": str(rundir.path)}, durable=False)

    def over(self) -> Iterator[tuple[Handle, RunDir]]:
        """Jobs that may be forgotten: the run is recorded, or its directory is gone. Damaged records are deleted."""
        for path in sorted(self.folder.glob("[!.]*")) if self.folder.is_dir() else ():
            record = read_json(path)
            try:
                handle, rundir = Handle(**(record or {})["handle"]), RunDir(Path((record or {})["run_dir"]))
            except (KeyError, TypeError):
                path.unlink(missing_ok=True)
                continue
            try:
                over = rundir.removed or rundir.exit_record.exists()
            except OSError:  # it cannot be read now
                continue
            if over:
                yield handle, rundir

    def drop(self, run: str) -> None:
        """Delete the record of a forgotten job."""
        (self.folder / run).unlink(missing_ok=True)
