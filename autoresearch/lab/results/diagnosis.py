"""Diagnosis: why a run ended badly, from its log, exit record and commands; the only module that decides this."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.lint import DEADLY, lint_shell
from autoresearch.core.diagnosis.failure import (
    MAX_LINE,
    Failure,
    FailureFamily,
    killed_from_outside,
    with_the_end,
)
from autoresearch.core.metrics.nearest_lines import nearest_lines, readable
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.ending import HUNG_AFTER_END, LEFT_TRAINING, Ending
from autoresearch.core.run.spec import DEADLINE, RunSpec
from autoresearch.core.run.trainer import Trainer
from autoresearch.core.shell.commands import ShellReading
from autoresearch.core.text.regex import later
from autoresearch.lab.results.measure import Measurement, RunFiles, failure_of
from autoresearch.readers.console import tail_lines
from autoresearch.readers.log_end import TAIL, LastWords, end_of, last_words
from autoresearch.records.events import Event
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.secrets import mask_text
from autoresearch.runner.text import clean_line
from autoresearch.trainers import ask

BADLY = (Ending.CRASHED, Ending.FIRST_STEP_TIMEOUT, Ending.STALLED, Ending.LAUNCH_FAILED, Ending.LOST)
_NEAREST_BYTES = 1 << 19  # of the end of a log, searched for the lines nearest to the metric
_NEAREST_LINE = 100  # characters of each
STAYS = 2  # steps at the end of a run in which a loss is NaN: a single one may be a skipped update
_NAN_COUNT = "nan_iterations"  # Megatron's
_OF_THE_POLICY = later(rf"(?i)(?:^|[/_. ])loss\b|loss$|^(?:actor|policy)/|{_NAN_COUNT}$")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The root cause, other failures, and failures that the run seems to have survived."""

    cause: Failure | None = None
    also: tuple[Failure, ...] = ()
    overcome: tuple[Failure, ...] = ()
    digest: tuple[str, ...] = ()  # lines for somebody who judges the cause

    @property
    def certain(self) -> bool:
        """Whether the cause is one, and not only a sign that something failed."""
        return self.cause is not None and self.cause.certain


def diagnose(spec: RunSpec, end: ExitRecord, log: Path, trainer: Trainer, *, hung: bool = False) -> Diagnosis:
    """The diagnosis of a run that is over; without a cause if it ended well.

    A run that exited with 0 ended well, unless its trainer's log says that it crashed. hung: a stall was reported
    before its end, and no signal followed. Such a run may end by its total time limit, or by a person, hours after the
    actual failure. What the log says after autoresearch decided to end the run is a consequence of that.
    """
    if end.ending is Ending.FINISHED and (said := _confession(log, ask.confessions(trainer))):
        words = words_of_run(spec, log, trainer)
        return diagnosis(words, words.cause(ended_badly=True) or Failure(FailureFamily.UNKNOWN, said, certain=False))
    if end.ending is Ending.FINISHED and (cause := _silent_failure(spec, end, log, trainer)):
        return diagnosis(words_of_run(spec, log, trainer), cause)
    if failed := failed_evaluation(spec, end, log, trainer):
        return Diagnosis(failed)
    if end.ending is Ending.STALLED and (over := end_of(log, ask.harmless(trainer)).over):
        return Diagnosis(Failure(FailureFamily.HANG, mask_text(over)[:MAX_LINE], note=HUNG_AFTER_END))
    badly = end.ending in BADLY
    killed = killed_from_outside(end.ending, end.cause, end.returncode)
    kills = killing_command(spec) if killed else ""
    if not (badly or kills or (hung and end.ending is not Ending.FINISHED)):
        return Diagnosis()
    words = words_of_run(spec, log, trainer, end.log_bytes_at_stop)
    cause = with_the_end(words.cause(ended_badly=badly), end.ending, killed=killed, kills=kills)
    if cause is None and badly and end.error_kind == "disk_full":
        cause = Failure(FailureFamily.DISK, end.reason)  # its log ends in the middle, as there was no room for more
    return diagnosis(words, cause)


def words_of_run(spec: RunSpec, log: Path, trainer: Trainer, until: int | None = None) -> LastWords:
    """The failures in a run's log. until: only so many bytes of it count."""
    return last_words(log, spec.signals or trainer.signals(), ask.harmless(trainer), until)


def _silent_failure(spec: RunSpec, end: ExitRecord, log: Path, trainer: Trainer) -> Failure | None:
    """Why a run failed whose command exited with 0; None if nothing says that it did.

    A shell returns the exit code of its last command. A count that stops short is told from a training that stopped
    early on purpose only where the exit code is known to be the trainer's.
    """
    if end.cause == LEFT_TRAINING:
        return Failure(FailureFamily.LEFT_TRAINING, end.reason)
    found = end_of(log, ask.harmless(trainer))
    if found.exception is not None:
        return found.exception
    if found.unfinished and any(one.code == "hidden_exit_code" for one in lint_shell(_reading(spec), where="")):
        return Failure(FailureFamily.ENDED_EARLY, mask_text(found.unfinished)[:MAX_LINE])
    return None


def _reading(spec: RunSpec) -> ShellReading:
    from autoresearch.lab.resolve.scripts import shell_reader

    return shell_reader(Path(spec.cwd), spec.environment)(spec.command, ())


def failed_evaluation(spec: RunSpec, end: ExitRecord, log: Path, trainer: Trainer) -> Failure | None:
    """Why a run that ended well but was to be evaluated has no metric; None if it has one."""
    cut = end.ending is Ending.MAX_TIME and spec.timed_by not in ("timeout", DEADLINE)
    if not spec.evaluate or not (cut or end.ending is Ending.FINISHED):
        return None
    own = log.with_name("evaluation.log")
    reason = str((end.evaluation or {}).get("reason", "there was none"))
    if reason:
        line = (said.line if (said := failure_of(own, trainer)) else "") or _last_line(own)
        return Failure(FailureFamily.EVALUATION_FAILED, mask_text(f"{reason}: {line}")[:MAX_LINE] if line else reason)
    if spec.objective is None or spec.objective.value(RunFiles(spec, trainer, log).evaluation().readings):
        return None
    told = f"the evaluation printed no {spec.objective.metric}"
    return Failure(FailureFamily.EVALUATION_FAILED, told + _nearest(spec.objective, own))


def why_unmeasured(
    spec: RunSpec, end: ExitRecord, trainer: Trainer, log: Path, measurement: Measurement
) -> Failure | None:
    """Why a run without a visible failure was not measured, or is no success; None if it needed no metric.

    A named trainer prints its steps; one that printed none did not train.
    """
    if end.ending in (Ending.FINISHED, Ending.MAX_TIME) and (what := _diverged(spec.objective, measurement)):
        return Failure(FailureFamily.DIVERGED, what)
    if end.ending is not Ending.FINISHED or measurement.measured:
        return None
    if trainer.named and not end.steps_seen and not measurement.steps:
        return Failure(FailureFamily.NO_STEP, f"{trainer.name} exited with 0 and printed no training step")
    if spec.objective is None:
        return None
    names = dict.fromkeys(name for reading in measurement.readings for name in reading.metrics)
    near = nearest_lines(spec.objective.keys, names)
    what = f"{spec.objective.metric} was not read"
    if near:  # it logs well, and the name is another one
        what += f"; write the name that it has into the notes, `- metric: {near[0]}`; most like it: {', '.join(near)}"
    return Failure(FailureFamily.METRIC_UNREAD, what + _nearest(spec.objective, log))


def _diverged(objective: Objective | None, measurement: Measurement) -> str:
    """What shows that the training diverged, its objective's last value or a loss that stays NaN; "" if nothing."""
    if objective is not None and measurement.series and not math.isfinite(measurement.series[-1][1]):
        return f"the last value of {objective.metric} is {measurement.series[-1][1]}"
    values: dict[str, list[float]] = {}
    for reading in measurement.steps:
        for name, value in reading.metrics.items():
            if _OF_THE_POLICY.search(name):
                values.setdefault(name, []).append(value)
    for name, seen in values.items():
        last = seen[-STAYS:]
        if name.endswith(_NAN_COUNT):
            if len(last) == STAYS and all(last):
                return f"{name} is {last[-1]:g} at each of the last {STAYS} steps"
        elif len(last) == STAYS and not any(map(math.isfinite, last)):
            return f"{name} is {last[-1]} at each of the last {STAYS} steps"
    return ""


def _nearest(objective: Objective, log: Path) -> str:
    """The three log lines most similar to the metric, masked and cut, and how to read one: the end of a sentence."""
    lines = (clean_line(line) for line in tail_lines(log, max_bytes=_NEAREST_BYTES))
    near = nearest_lines(objective.keys, (line for line in lines if line and not line.startswith("$ ")))
    masked = [mask_text(line).strip() for line in near]
    quoted = ", ".join(f"`{line[:_NEAREST_LINE]}`" for line in masked)
    shown = f"; nearest in the log: {quoted}" if quoted else "; the log is empty"
    how = next((how for line in masked if (how := readable(objective.keys[0], line))), None)
    if how is None:
        return shown
    named = "" if how.metric == objective.metric else f" and `- metric: {how.metric}`"
    return f"{shown}; to read {objective.metric} there, add to the notes `- step_line: {how.step_line}`{named}"


def _last_line(log: Path) -> str:
    """The last non-empty line of a log, except the command that autoresearch wrote into it."""
    lines = [clean_line(line) for line in tail_lines(log, max_bytes=1 << 14)]
    return next((line for line in reversed(lines) if line and not line.startswith("$ ")), "")


def _confession(log: Path, patterns: Sequence[str]) -> str:
    """The last line near the log's end that starts with one of the patterns; "" for none."""
    if not patterns:
        return ""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((text for text in map(clean_line, reversed(lines)) if any(re.match(one, text) for one in patterns)), "")


def diagnosis(last_words: LastWords, cause: Failure | None) -> Diagnosis:
    """A diagnosis with this cause, which is then not repeated among the others."""
    also = tuple(f for f in last_words.failures if cause is None or f.family is not cause.family)
    return Diagnosis(cause, also, tuple(f for f in last_words.overcome if f != cause), last_words.digest)


def open_stall(happened: list[Event]) -> Event | None:
    """The last report of a stall that no signal followed."""
    found = None
    for event in happened:
        if event.event == "stall":
            found = event
        elif event.event == "resumed":
            found = None
    return found


def killing_command(spec: RunSpec) -> str:
    """The run's command, or script line that it starts, that kills processes by name; "" for none."""
    from autoresearch.lab.resolve.scripts import shell_reader

    read = shell_reader(Path(spec.cwd), spec.environment)
    for command in (spec.command, *spec.prepare):
        reading = read(command, ())
        texts = {script.where: script.text or "" for script in reading.scripts}
        for finding in lint_shell(reading, where="the command"):
            if finding.code in DEADLY:
                lines = texts.get(finding.where, command).splitlines()[finding.line - 1 : finding.line] or [command]
                return f"{finding.where}, line {finding.line}: {lines[0].strip()[:200]}"
    return ""
