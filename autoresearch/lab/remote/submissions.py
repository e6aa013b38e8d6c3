"""Jobs submitted to a target: recorded until the launcher may forget them, even if the run directory is removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from autoresearch.core.run.job_launcher import Handle
from autoresearch.records.rundir import RunDir, read_json, write_json


@dataclass(frozen=True, slots=True)
class Submission:
    """A job and its run directory."""

    handle: Handle
    rundir: RunDir

    @property
    def over(self) -> bool:
        """Whether its run is recorded, or its run directory is gone."""
        try:
            return self.rundir.removed or self.rundir.exit_record.exists()
        except OSError:  # it cannot be read now
            return False


class Submissions:
    """The records, one file per job, in the Follower's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "jobs"

    def note(self, handle: Handle, rundir: RunDir) -> None:
        """Record a job. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / handle.run, {"handle": asdict(handle), "run_dir": str(rundir.path)}, durable=False)

    def over(self) -> Iterator[Submission]:
        """Jobs that may be forgotten; damaged records are deleted."""
        for path in sorted(self.folder.glob("[!.]*")) if self.folder.is_dir() else ():
            record = read_json(path)
            try:
                noted = Submission(Handle(**record["handle"]), RunDir(Path(record["run_dir"]))) if record else None
            except (KeyError, TypeError):
                noted = None
            if noted is None:
                path.unlink(missing_ok=True)
            elif noted.over:
                yield noted

    def drop(self, run: str) -> None:
        """Delete the record of a forgotten job."""
        (self.folder / run).unlink(missing_ok=True)
