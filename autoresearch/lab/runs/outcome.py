"""Outcome: the records of a finished run. Cheap to load, as `status` and `wait` poll it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from autoresearch.core.run.ending import EVALUATION_FAILED, METRIC_UNREAD, PENDING, Ending, Verdict, exit_code
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.statistics.comparable import NO_SIGNAL
from autoresearch.records import exit_record, index, journal, recorded_run
from autoresearch.records.recorded_run import FinishedRun
from autoresearch.records.rundir import RunDir, read_json, write_json


@dataclass(frozen=True, slots=True)
class Outcome(FinishedRun):
    """A finished run that was measured and judged."""

    verdict: Verdict
    results: Path
    metric_value: float | None = None
    metric_step: int | None = None
    best_value: float | None = None
    metric_source: str = ""
    failure: str = ""  # failure class, "" if none
    failure_line: str = ""
    warnings: tuple[str, ...] = ()  # conflicting sources, and what could not be read
    run_urls: tuple[str, ...] = ()  # the run's pages in trackers
    steps_read: str = ""  # which lines were taken for steps, where nobody declared any
    verdict_reason: str = ""  # why that verdict, if not obvious: the numbers of a campaign's decision
    pending: bool = False  # more runs of its idea are owed: the verdict is not final

    @property
    def crashed(self) -> bool:
        """Whether the trainer exited with 0 although its log shows a crash."""
        not_that = ("", NO_SIGNAL, EVALUATION_FAILED, METRIC_UNREAD)
        return self.exit.ending is Ending.FINISHED and self.failure not in not_that

    @property
    def hung_after_end(self) -> bool:
        """Whether it was measured and judged though a stall limit ended it: its training was over."""
        return self.exit.ending is Ending.STALLED and self.verdict is not Verdict.CRASH

    @property
    def standing(self) -> str:
        """`pending` while more runs of its idea are owed, else the verdict."""
        return PENDING if self.pending else self.verdict.value

    @property
    def measured(self) -> bool:
        """Whether a value of the metric was found."""
        return self.metric_value is not None

    @property
    def exit_code(self) -> int:
        """The exit code of a blocking `run`."""
        good = self.measured or self.verdict is Verdict.KEEP
        ending = Ending.FINISHED if self.hung_after_end else self.exit.ending
        return exit_code(ending, measured=good, crashed=self.crashed)


_COLLECTED = {one.name for one in fields(Outcome)} - {one.name for one in fields(FinishedRun)}


def load(rundir: RunDir) -> Outcome | None:
    """The outcome of a collected run; None while its records are unfinished."""
    end = exit_record.read(rundir) if rundir.collected.exists() else None
    return collected(FinishedRun(rundir, recorded_run.read(rundir), end)) if end else None


def where_now(spec: RunSpec, document: Path) -> Path:
    """The present path of a run's document: a later run in the directory moves it to `earlier/`."""
    result_dir = Path(spec.result_dir)
    if document.parent != result_dir or journal.owner(result_dir) == spec.run:
        return document
    moved = result_dir / index.DIRECTORY / spec.run / document.name
    return moved if moved.exists() else document


def write_collected(outcome: Outcome) -> None:
    """Write collected.json: all of an outcome that neither spec nor exit record hold."""
    own = {name: getattr(outcome, name) for name in _COLLECTED}
    record = {"schema": 1, "run": outcome.spec.run, **own, "results": str(outcome.results)}
    write_json(outcome.rundir.collected, record)


def collected(finished: FinishedRun) -> Outcome | None:
    """The outcome that collected.json holds; None if there is none, or if it is malformed."""
    done = read_json(finished.rundir.collected) or {}
    known: dict[str, Any] = {name: done[name] for name in _COLLECTED & done.keys()}
    known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
    try:
        known["verdict"], known["results"] = Verdict(done["verdict"]), where_now(finished.spec, Path(done["results"]))
    except (KeyError, ValueError, TypeError):
        return None
    return Outcome(finished.rundir, finished.spec, finished.exit, **known)


def as_payload(outcome: Outcome) -> dict[str, Any]:
    """The JSON object for a finished run."""
    spec, end = outcome.spec, outcome.exit
    name = spec.objective.metric if spec.objective else None
    return {
        "run": spec.run,
        "state": "ended",
        "ending": end.ending.value,
        "returncode": end.returncode,
        "reason": end.reason,
        "verdict": outcome.standing,
        "verdict_reason": outcome.verdict_reason or None,
        "metrics": {name: outcome.metric_value, "best": outcome.best_value, "step": outcome.metric_step}
        if name
        else {},
        "read": outcome.steps_read or None,
        "failure": outcome.failure or None,
        "failure_line": outcome.failure_line or None,
        "warnings": list(outcome.warnings),
        "run_urls": list(outcome.run_urls),
        "branch": (spec.commit and spec.branch) or None,
        "commit": spec.commit or None,
        **outcome.record_paths(),
        "results": str(outcome.results),
        "elapsed_s": round(end.duration_s, 3),
        "first_step_s": end.first_step_s,
        "driven_by": spec.driven_by or None,
    }
