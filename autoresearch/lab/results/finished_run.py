"""A run that is over: what its records and its log show, before it is judged."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.diagnosis.failure import Diagnosis, Failure
from autoresearch.core.metrics.constraint import MEMORY, Breach, breach, parsed
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.ending import HUNG_AFTER_END, TAMPERED, UNREAD, Ending, Verdict, lone_verdict
from autoresearch.core.run.spec import DEADLINE
from autoresearch.core.statistics.comparable import no_signal
from autoresearch.lab.results.diagnosis import unread_words, why_unmeasured
from autoresearch.lab.results.measure import Measurement, RunFiles
from autoresearch.lab.results.not_shown import diagnosed
from autoresearch.records import recorded_run
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.hostile import read_own, write_atomically
from autoresearch.records.recorded_run import FinishedRun
from autoresearch.records.rundir import masked_file
from autoresearch.trainers import registry


@dataclass(frozen=True, slots=True)
class ExaminedRun:
    """A run that is over, measured and diagnosed."""

    finished: FinishedRun
    measurement: Measurement
    diagnosis: Diagnosis
    tampered: str = ""  # the flag that its worktree is not at the commit of its own any more
    changed: str = ""  # the tracked files that it changed, in a sentence
    unread: str = ""  # what it printed, where no failure says why it has no value
    foreign: tuple[str, ...] = ()  # what stood in the place of our documents, in sentences

    @property
    def failure(self) -> Failure | None:
        return self.diagnosis.cause

    @property
    def value(self) -> float | None:
        """The metric that counts; None where it was tampered with, or where only the log shows a crash."""
        crashed = self.finished.exit.ending is Ending.FINISHED and self.failure is not None
        return self.measurement.last[1] if self.measurement.last and not (crashed or self.tampered) else None

    @property
    def steps(self) -> int | None:
        """The last training step: the Runner may have ended with the client, before a server printed it."""
        end = self.finished.exit
        seen = end.last_step if end.last_step is not None else (end.steps_seen or None)
        measured = [reading.step for reading in self.measurement.steps[-1:] if reading.step >= 0]
        return max([*measured, *([] if seen is None else [seen])], default=None)

    def limited(self) -> dict[str, float]:
        """The value of each metric that a constraint limits, by its name: measured by the Runner, else logged.

        Of an evaluated run, what its evaluation printed goes before what the training did. One without a finite value
        is left out.
        """
        found, memory = dict[str, float](), self.finished.exit.memory_gb
        for metric in (one.metric for one in parsed(self.finished.spec.constraints)):
            told = (Objective(metric).value(part) for part in (self.measurement.evaluated, self.measurement.readings))
            point = next(filter(None, told), None)
            if metric == MEMORY and memory is not None:
                found[metric] = memory
            elif point is not None:
                found[metric] = point[1]
        return found

    @property
    def breach(self) -> Breach | None:
        """The constraint that keeps a measured run from being a success; None if it kept all."""
        readings = (*self.measurement.evaluated, *self.measurement.readings)
        logged = {name for reading in readings for name in reading.metrics}
        return breach(parsed(self.finished.spec.constraints), self.limited(), logged)

    @property
    def hung(self) -> str:
        """That its training was over when it hung, so that it is measured as one that finished; "" for any other."""
        return HUNG_AFTER_END if self.failure is not None and self.failure.note == HUNG_AFTER_END else ""

    @property
    def idle(self) -> str:
        """Why it had nothing to learn from; "" if it had."""
        return no_signal(self.measurement.steps)

    @property
    def judged_end(self) -> ExitRecord:
        """How it ended, for the judge."""
        end = self.finished.exit
        return replace(end, ending=Ending.FINISHED) if self.hung else end

    @property
    def failed(self) -> bool:
        """Whether more is wrong with it than that no value was read: its log, its evaluation, its records say so."""
        kind = self.failure.kind.value if self.failure else UNREAD[0]
        return kind not in UNREAD or bool(self.tampered or (self.finished.exit.evaluation or {}).get("reason"))

    @property
    def unmeasured(self) -> bool:
        """Whether it returned 0 and nobody read a value of it."""
        return self.judged_end.ending is Ending.FINISHED and self.value is None and not self.failed

    @property
    def counted(self) -> float | None:
        """The metric, if it counts after this ending: a campaign's --timeout is a failure, exp_max_time is not."""
        ending = self.judged_end.ending
        if ending is Ending.MAX_TIME:
            counts = self.finished.spec.timed_by not in ("timeout", DEADLINE)
        else:
            counts = lone_verdict(ending, measured=True) is Verdict.KEEP
        return self.value if counts else None


def examine(finished: FinishedRun, *, in_campaign: bool) -> ExaminedRun:
    """Measure a run, find out why it failed, and whether its records are its own."""
    spec, end, log, trainer = finished.spec, finished.exit, finished.rundir.log, registry.of_run(finished.spec)
    ran = end.ending is not Ending.LAUNCH_FAILED  # otherwise another run measured what lies there
    measurement = RunFiles(spec, trainer, log, end.returncode == 0).measure() if ran else Measurement(())
    found = diagnosed(finished, trainer)
    tampered = changed = ""
    if in_campaign and spec.worktree:
        from autoresearch.lab.ideas import worktree_check

        foreign, changed = worktree_check.after(finished)
        tampered = foreign and f"{TAMPERED}{foreign}"
    if spec.evaluate and (not end.evaluation or end.evaluation["reason"]):  # earlier output does not count as a metric
        measurement = replace(measurement, series=(), last=None, best=None)
    if found.cause is None and not tampered:
        found = replace(found, cause=why_unmeasured(finished, trainer, measurement))
    examined = ExaminedRun(finished, measurement, found, tampered, changed)
    if examined.unmeasured and examined.failure is None:
        examined = replace(examined, unread=unread_words(finished, trainer, measurement))
    return examined


def clear_secrets(finished: FinishedRun) -> None:
    """Remove the secrets from files that are no longer executed; after a full disk, the next time."""
    rundir, spec = finished.rundir, finished.spec
    for path in (rundir.spec, rundir.far / "spec.json"):
        with contextlib.suppress(OSError):
            recorded_run.clear(path)
    if spec.recipe:
        result_dir = Path(spec.result_dir)
        copy = Path(spec.recipe_copy)
        with contextlib.suppress(OSError):
            data = read_own(copy, root=result_dir)
            if (masked := masked_file(data, yaml=True)) != data:
                write_atomically(copy, masked, root=result_dir)
