"""A run as its directory records it, read once: while it lives, and when it is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import ConflictError
from autoresearch.records import exit_record, spec_file
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.rundir import RunDir


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run directory and the spec in it. A project that was moved has other paths in its specs."""

    rundir: RunDir
    spec: RunSpec

    @classmethod
    def read(cls, rundir: RunDir) -> RecordedRun:
        """Read it. Raises OSError if there is no spec.json, NotFoundError if it is damaged."""
        return cls(rundir, spec_file.read(rundir))

    def record_paths(self) -> dict[str, Any]:
        """Where it and its records are, as every JSON object about a run says it."""
        return {
            "no_snapshot": self.spec.no_snapshot or None,
            "session": self.spec.session,
            "result_dir": self.spec.result_dir,
            "run_dir": str(self.rundir.path),
            "log_path": str(self.rundir.log),
            "ledger": self.spec.ledger,
        }


@dataclass(frozen=True, slots=True)
class FinishedRun(RecordedRun):
    """A run that is over, with how it ended."""

    exit: ExitRecord

    @classmethod
    def checked(cls, rundir: RunDir) -> FinishedRun:
        """Read it, and move an exit record aside that its Runner did not write. ConflictError if it is not over."""
        spec = spec_file.read(rundir)
        end = None if exit_record.set_aside(rundir, spec.run) else exit_record.read(rundir)
        if end is None:
            raise ConflictError(f"{spec.run} is not over: it has no exit record", fix=f"autoresearch wait {spec.run}")
        return cls(rundir, spec, end)
