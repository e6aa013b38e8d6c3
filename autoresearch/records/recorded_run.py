"""A run as its directory records it, read once: while it lives, when it is over, and when it was judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from autoresearch.core.diagnosis.failure import Diagnosis
from autoresearch.core.run.ending import EVALUATION_FAILED, METRIC_UNREAD, NO_STEP, Ending, Verdict, exit_code
from autoresearch.core.run.json_record import as_recorded, from_record
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import ConflictError, EnvironmentUnusable, NotFoundError
from autoresearch.records import exit_record
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.files import finite, read_json, unreadable, unwritable, write_json
from autoresearch.records.rundir import RunDir
from autoresearch.runner.masking import learn, mask_values, secrets_in

# spec.json: a RunSpec as one flat JSON object that the Runner reads too.
#
# The Runner's keys are at the top level beside the RunSpec's (run, command, cwd, limits, signals, prepare, ...);
# keys that only the Runner reads (journal, collector, lease_shares, first_step, cleanup_s) are passed as `extra`.

SCHEMA = 1


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
    if mask_values(record) == record:
        path.chmod(0o644)
    else:
        write_json(path, record)


def read(rundir: RunDir) -> RunSpec:
    """The RunSpec of a run directory; keys that are not its own are ignored.

    From then on, this process masks the secrets of the run's commands wherever the trainer printed them.
    Raises NotFoundError if there is no spec.json, or if it is damaged, and EnvironmentUnusable if it cannot be read.
    """
    try:
        spec = from_record(RunSpec, json.loads(rundir.spec.read_bytes()))
        for command in (spec.command, *spec.prepare, *spec.evaluate, *spec.cleanup):
            learn(secrets_in(command))
        return spec
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(
            f"{rundir.path}: the run directory is gone ({error.strerror})",
            hint="somebody removed it (`git clean`?); a run that still trains goes on to its end or its limits",
        ) from error
    except OSError as error:  # such as too many open files: the run is there
        raise unreadable(rundir.spec, error) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotFoundError(
            f"{rundir.spec} is damaged: {error or type(error).__name__}",
            hint="the run's log and events lie beside it; its row in the ledger remains",
            code="spec_damaged",
        ) from error


def read_if_whole(rundir: RunDir) -> RunSpec | None:
    """The same; None where it is gone or damaged, or cannot be read."""
    try:
        return read(rundir)
    except (NotFoundError, EnvironmentUnusable):
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

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs that its Runner has leased, by UUID."""
        return tuple((read_json(self.rundir.runner) or {}).get("gpus", self.spec.gpus))

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

    def where_now(self, document: Path) -> Path:
        """The present path of a document of it: a later run in its result directory moves it to `earlier/`."""
        from autoresearch.records import journal

        result_dir = Path(self.spec.result_dir)
        if document.parent != result_dir or journal.owner(result_dir) == self.spec.run:
            return document
        moved = result_dir / journal.EARLIER / self.spec.run / document.name
        return moved if moved.exists() else document


@dataclass(frozen=True, slots=True)
class FinishedRun(RecordedRun):
    """A run that is over, with how it ended."""

    exit: ExitRecord

    @classmethod
    def checked(cls, rundir: RunDir) -> FinishedRun:
        """Read it. ConflictError if it is not over."""
        spec, end = read(rundir), exit_record.read(rundir)
        if end is None:
            raise ConflictError(f"{spec.run} is not over: it has no exit record", fix=f"autoresearch wait {spec.run}")
        return cls(rundir, spec, end)


@dataclass(frozen=True, slots=True)
class Outcome(FinishedRun):
    """A finished run that was measured and judged: its row, and what a row has no room for."""

    row: LedgerRow
    results: Path
    metric_source: str = ""
    failure_line: str = ""
    warnings: tuple[str, ...] = ()  # conflicting sources, and what could not be read
    steps_read: str = ""  # which lines were taken for steps, where nobody declared any
    diagnosis: Diagnosis | None = None  # None in records of before
    curve: tuple[tuple[int, float], ...] = ()  # the objective over its steps, as it was measured

    @property
    def crashed(self) -> bool:
        """Whether the trainer exited with 0 although its log shows a crash."""
        from autoresearch.core.statistics.comparable import NO_SIGNAL

        not_that = ("", NO_SIGNAL, EVALUATION_FAILED, METRIC_UNREAD, NO_STEP)
        return self.exit.ending is Ending.FINISHED and self.row.failure not in not_that

    @property
    def measured(self) -> bool:
        """Whether a value of the metric was found."""
        return self.row.metric_value is not None

    @property
    def run_urls(self) -> list[str]:
        """The run's pages in trackers."""
        return self.row.run_urls.split()

    @property
    def exit_code(self) -> int:
        """The exit code of a blocking `run`."""
        status, ending = self.row.status, self.exit.ending
        good = self.measured or (status == Verdict.UNMEASURED and not self.row.failure)
        if ending is Ending.STALLED and status != Verdict.CRASH:  # its training was over, and it was judged
            ending = Ending.FINISHED
        return exit_code(ending, measured=good, crashed=self.crashed)

    @classmethod
    def load(cls, rundir: RunDir) -> Outcome | None:
        """The outcome of a collected run; None while its records are unfinished."""
        end = exit_record.read(rundir) if rundir.collected.exists() else None
        return cls.of(FinishedRun(rundir, read(rundir), end)) if end else None

    @classmethod
    def of(cls, finished: FinishedRun) -> Outcome | None:
        """The outcome that collected.json holds; None if there is none, or if it is malformed."""
        done = read_json(finished.rundir.collected) or {}
        own = {name: done[name] for name in _COLLECTED & done.keys()}
        own |= {name: tuple(value) for name, value in own.items() if isinstance(value, list)}
        try:
            own["diagnosis"] = from_record(Diagnosis, done["diagnosis"]) if done.get("diagnosis") else None
            own["row"], own["results"] = from_record(LedgerRow, done["row"]), finished.where_now(Path(done["results"]))
        except (KeyError, ValueError, TypeError):
            return None
        return cls(finished.rundir, finished.spec, finished.exit, **own)

    def write(self) -> None:
        """Write collected.json: all of it that neither spec nor exit record hold."""
        own = {name: as_recorded(getattr(self, name)) for name in _COLLECTED - {"results"}}
        done = {"schema": 1, "run": self.spec.run, **own, "results": str(self.results)}
        write_json(self.rundir.collected, finite(done))

    def payload(self) -> dict[str, Any]:
        """The JSON object for a finished run."""
        spec, end, row = self.spec, self.exit, self.row
        name = row.metric_name
        return {
            "run": spec.run,
            "state": "ended",
            "ending": end.ending.value,
            "returncode": end.returncode,
            "reason": end.reason,
            "verdict": row.shown_status,
            "verdict_reason": row.reason or None,
            "metrics": {name: row.metric_value, "best": row.best_value, "step": row.metric_step} if name else {},
            "read": self.steps_read or None,
            "failure": row.failure or None,
            "failure_line": self.failure_line or None,
            "warnings": list(self.warnings),
            "run_urls": self.run_urls,
            "branch": (spec.commit and spec.branch) or None,
            "commit": spec.commit or None,
            **self.record_paths(),
            "results": str(self.results),
            "elapsed_s": round(end.duration_s, 3),
            "first_step_s": end.first_step_s,
            "driven_by": spec.driven_by or None,
        }


_COLLECTED = {one.name for one in fields(Outcome)} - {one.name for one in fields(FinishedRun)}
