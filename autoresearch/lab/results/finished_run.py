"""A run that is over: what its records and its log show, before it is judged."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.diagnosis.failure import MAX_LINE, Diagnosis, Failure, FailureKind
from autoresearch.core.metrics.constraint import MEMORY, Breach, breach, parsed
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.ending import HUNG_AFTER_END, TAMPERED, UNREAD, Ending, Verdict, lone_verdict
from autoresearch.core.run.extra_paths import Way, is_within
from autoresearch.core.run.spec import DEADLINE, RunSpec
from autoresearch.core.run.trainer import Trainer
from autoresearch.core.statistics.comparable import no_signal
from autoresearch.core.text.regex import later
from autoresearch.lab.results.diagnosis import diagnose, unread_words, why_unmeasured
from autoresearch.lab.results.measure import Measurement, RunFiles
from autoresearch.records import campaign_records, recorded_run
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.recorded_run import FinishedRun
from autoresearch.trainers import registry

_REFUSED = (os.strerror(errno.EROFS), os.strerror(errno.EACCES))
_WORDS = later(r"""'([^']+)'|"([^"]+)"|`([^`]+)`|([^\s'"`,;:()\[\]]+)""")


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
        from autoresearch.lab.campaigns.slots import check_worktree

        foreign, changed = check_worktree(finished)
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
    for path in (finished.rundir.spec, finished.rundir.far / "spec.json"):
        with contextlib.suppress(OSError):
            recorded_run.clear(path)


def diagnosed(finished: FinishedRun, trainer: Trainer) -> Diagnosis:
    """The diagnosis of a run that is over; of a path that its worktree does not show, with the line that shows it."""
    found = diagnose(finished, trainer)
    return replace(found, cause=_if_not_shown(found.cause, finished.spec)) if found.cause else found


def _if_not_shown(failure: Failure, spec: RunSpec) -> Failure:
    """The failure, with the line that shows a path where its own line names one that the worktree does not show."""
    campaign = campaign_records.spec_of(CampaignDir(Path(spec.ledger).parent)) if spec.worktree else None
    if campaign is None:
        return failure
    elsewhere = spec.launcher != "tmux"
    for path in _paths(failure.line, spec):
        one = next((one for one in campaign.shown if is_within(path, one.path)), None)
        if one is None:
            continue
        if not one.way.is_shown or (elsewhere and not one.included):
            if not os.path.lexists(f"{spec.worktree}/{path}") and os.path.lexists(f"{campaign.repository}/{path}"):
                said = f"{path} is in the checkout, and no run sees it: `include: {path}` shows it"
                return replace(failure, kind=FailureKind.NOT_SHOWN, line=said[:MAX_LINE], note=failure.line)
        elif spec.sandbox and one.way is not Way.OWN and any(word in failure.line for word in _REFUSED):
            own = f"`include: {{path: {one.name}, write: copy}}`"
            said = f"runs see {one.name} read-only, and this one wrote there: {own} gives each a copy of its own"
            return replace(failure, kind=FailureKind.NOT_SHOWN, line=said[:MAX_LINE], note=failure.line)
    return failure


def _paths(line: str, spec: RunSpec) -> Iterator[str]:
    """The paths in a line that lie in the worktree of its run, relative to it."""
    for match in _WORDS.finditer(line):
        path = os.path.normpath(os.path.join(spec.cwd, next(filter(None, match.groups()))))  # noqa: PTH118
        if path.startswith(f"{spec.worktree}/"):
            yield os.path.relpath(path, spec.worktree)
