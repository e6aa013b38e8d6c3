"""A run as its directory records it, read once: while it lives, and when it is over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.run.json_record import from_record
from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import ConflictError, NotFoundError
from autoresearch.records import exit_record
from autoresearch.records.appending import unwritable
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.rundir import RunDir, read_json, write_json
from autoresearch.records.secrets import learn, mask_values, secrets_in

# spec.json: a RunSpec as one flat JSON object that the Runner reads too.
#
# The Runner's keys are at the top level beside the RunSpec's (run, command, cwd, limits, signals, prepare, ...);
# keys that only the Runner reads (journal, collector, leases, first_step, cleanup_s) are passed as `extra`.

SCHEMA = 1
_PATTERNS = ("signals", "lines", "sources")  # how logs and metrics are parsed


def write(rundir: RunDir, spec: RunSpec, extra: Mapping[str, Any]) -> None:
    """Write spec.json atomically. Raises ValueError for a key of `extra` that the RunSpec has, EnvironmentUnusable."""
    own = asdict(spec)
    if both := own.keys() & extra.keys():
        raise ValueError(f"these keys belong to the RunSpec: {', '.join(sorted(both))}")
    try:
        write_json(rundir.spec, {"schema": SCHEMA, **own, **extra}, executed=True)
    except OSError as error:
        raise unwritable(rundir.spec, error) from error


def clear(path: Path) -> None:
    """Mask the secrets in the spec.json of a run that will not be executed again. OSError if it cannot be written."""
    record = read_json(path)
    if record is None or path.stat().st_mode & 0o077:
        return
    write_json(path, {name: record[name] if name in _PATTERNS else mask_values(record[name]) for name in record})


def read(rundir: RunDir) -> RunSpec:
    """The RunSpec of a run directory; keys that are not its own are ignored.

    From then on, this process masks the secrets of the run's commands wherever the trainer printed them.
    Raises NotFoundError if there is no spec.json, or if it is damaged.
    """
    try:
        spec = from_record(RunSpec, json.loads(rundir.spec.read_bytes()))
        for command in (spec.command, *spec.prepare, *spec.evaluate, *spec.cleanup):
            learn(secrets_in(command))
        return spec
    except OSError as error:
        raise NotFoundError(
            f"{rundir.path}: the run directory is gone ({error.strerror})",
            hint="its row in the ledger remains",
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotFoundError(
            f"{rundir.spec} is damaged: {error or type(error).__name__}",
            hint="the run's log and events lie beside it; its row in the ledger remains",
            code="spec_damaged",
        ) from error


def read_if_whole(rundir: RunDir) -> RunSpec | None:
    """The same; None where it is gone or damaged."""
    try:
        return read(rundir)
    except NotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run directory and the spec in it. A project that was moved has other paths in its specs."""

    rundir: RunDir
    spec: RunSpec

    @classmethod
    def read(cls, rundir: RunDir) -> RecordedRun:
        """Read it. Raises NotFoundError if there is no spec.json, or if it is damaged."""
        return cls(rundir, read(rundir))

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
        spec = read(rundir)
        end = None if exit_record.set_aside(rundir, spec.run) else exit_record.read(rundir)
        if end is None:
            raise ConflictError(f"{spec.run} is not over: it has no exit record", fix=f"autoresearch wait {spec.run}")
        return cls(rundir, spec, end)
