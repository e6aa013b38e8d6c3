"""Diagnosis: why a run ended badly, from its log, exit record and commands; the only module that decides this."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autoresearch.core.diagnosis.failure import (
    MAX_LINE,
    Diagnosis,
    Failure,
    FailureKind,
    killed_from_outside,
    with_the_end,
)
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.metrics.signal import SignalKind, nearest_lines
from autoresearch.core.run.ending import HUNG_AFTER_END, LEFT_TRAINING, NO_NUMBER, Ending
from autoresearch.core.run.spec import DEADLINE, RunSpec
from autoresearch.core.run.trainer import Trainer
from autoresearch.core.text.regex import later
from autoresearch.lab.recipes.likely_objective import PrintedNumber, with_proposal
from autoresearch.lab.results.measure import Measurement, RunFiles, numbers_in
from autoresearch.readers.console import tail_lines
from autoresearch.readers.log_end import TAIL, end_of, last_words
from autoresearch.records import events
from autoresearch.records.events import Event
from autoresearch.records.recorded_run import FinishedRun
from autoresearch.runner.masking import mask_text
from autoresearch.runner.text import clean_line
from autoresearch.trainers import registry

BADLY = (Ending.CRASHED, Ending.FIRST_STEP_TIMEOUT, Ending.STALLED, Ending.LAUNCH_FAILED, Ending.LOST)
_NEAREST_BYTES = 1 << 19  # of the end of a log, searched for the lines nearest to the metric
_MOST_NAMES = 8  # of numbers that a run printed
_NEAREST_LINE = 100  # characters of each
STAYS = 2  # steps at the end of a run in which a loss is NaN: a single one may be a skipped update
_OF_THE_POLICY = later(r"(?i)(?:^|[/_. ])loss\b|loss$|^(?:actor|policy)/")
_MINDS_EXIT = later(r"&&|\bset\s+-\w*e|\berrexit\b|\bpipefail\b|\bPIPESTATUS\b|\$\?")


def diagnose(finished: FinishedRun, trainer: Trainer) -> Diagnosis:
    """The diagnosis of a run that is over; without a cause if it ended well.

    A run that exited with 0 ended well, unless its trainer's log says that it crashed. One that hung, as no signal
    followed the report of a stall, may end by its total time limit, or by a person, hours after the actual failure.
    What the log says after autoresearch decided to end the run is a consequence of that.
    """
    end, log = finished.exit, finished.rundir.log
    if end.ending is Ending.FINISHED and (said := _confession(log, trainer.confessions())):
        found = words_of(log, trainer, ended_badly=True)
        return replace(found, cause=found.cause or Failure(FailureKind.UNKNOWN, said))
    if end.ending is Ending.FINISHED and (cause := _silent_failure(finished, trainer)):
        return replace(words_of(log, trainer), cause=cause)
    if failed := _failed_evaluation(finished, trainer):
        return Diagnosis(failed)
    if end.ending is Ending.STALLED and (over := end_of(log, trainer.harmless()).over):
        return Diagnosis(Failure(FailureKind.HANG, mask_text(over)[:MAX_LINE], note=HUNG_AFTER_END))
    badly = end.ending in BADLY
    hung = end.ending is not Ending.FINISHED and open_stall(events.read(finished.rundir.events)[0]) is not None
    if not (badly or hung):
        return Diagnosis()
    found = words_of(log, trainer, end.log_bytes_at_stop, ended_badly=badly)
    killed = killed_from_outside(end.ending, end.cause, end.returncode)
    cause = with_the_end(found.cause, end.ending, killed=killed)
    if cause is None and badly and end.error_kind == "disk_full":
        cause = Failure(FailureKind.MACHINE, end.reason)  # its log ends in the middle, as there was no room for more
    return replace(found, cause=cause)


def words_of(log: Path, trainer: Trainer | None, until: int | None = None, *, ended_badly: bool = False) -> Diagnosis:
    """What a log says of its end, by the patterns of its trainer, else of all. until, ended_badly: see `last_words`."""
    known = (trainer,) if trainer else registry.every()
    patterns = [signal for one in known for signal in one.signals()]
    harmless = [harmless for one in known for harmless in one.harmless()]
    spelled = trainer is None or all(one.kind is not SignalKind.STEP for one in patterns)  # nobody says how they look
    return last_words(log, patterns, harmless, until, spelled=spelled, ended_badly=ended_badly)[1]


def _silent_failure(finished: FinishedRun, trainer: Trainer) -> Failure | None:
    """Why a run failed whose command exited with 0; None if nothing says that it did.

    A shell returns the exit code of its last command. A count that stops short is told from a training that stopped
    early on purpose only where the exit code is known to be another's than the trainer's.
    """
    if finished.exit.cause == LEFT_TRAINING:
        return Failure(FailureKind.LEFT_TRAINING, finished.exit.reason)
    found = end_of(finished.rundir.log, trainer.harmless())
    if found.exception is None and found.unfinished and _exit_is_hidden(finished.spec):
        return Failure(FailureKind.ENDED_EARLY, mask_text(found.unfinished)[:MAX_LINE])
    return found.exception


def _exit_is_hidden(spec: RunSpec) -> bool:
    """Whether the last command of the run is another than its training, and does nothing about its exit code."""
    from autoresearch.lab.resolve.launch_command import shell_reader

    reading = shell_reader(Path(spec.cwd), spec.environment)(spec.command)
    texts = [spec.command, *(script.text for script in reading.scripts if not script.python)]
    last = reading.commands[-1:]
    return bool(last) and not last[0].may_train and not any(map(_MINDS_EXIT.search, texts))


def _failed_evaluation(finished: FinishedRun, trainer: Trainer) -> Failure | None:
    """Why a run that ended well but was to be evaluated has no metric; None if it has one."""
    spec, end, own = finished.spec, finished.exit, finished.rundir.evaluation
    cut = end.ending is Ending.MAX_TIME and spec.timed_by not in ("timeout", DEADLINE)
    if not spec.evaluate or not (cut or end.ending is Ending.FINISHED):
        return None
    reason = str((end.evaluation or {}).get("reason", "there was none"))
    if reason:
        said = words_of(own, trainer, ended_badly=True).cause
        line = (said.line if said else "") or _last_line(own)
        return Failure(FailureKind.EVALUATION_FAILED, mask_text(f"{reason}: {line}")[:MAX_LINE] if line else reason)
    files = RunFiles(spec, trainer, finished.rundir.log)
    if spec.objective is None or spec.objective.value(files.evaluation().readings):
        return None
    told = f"the evaluation printed no {spec.objective.metric}"
    return Failure(FailureKind.EVALUATION_FAILED, told + _nearest(spec.objective, own))


def why_unmeasured(finished: FinishedRun, trainer: Trainer, measurement: Measurement) -> Failure | None:
    """Why a run without a visible failure was not measured, or is no success; None if it needed no metric."""
    spec, end = finished.spec, finished.exit
    if end.ending in (Ending.FINISHED, Ending.MAX_TIME) and (what := _diverged(spec.objective, measurement)):
        return Failure(FailureKind.DIVERGED, what)
    if end.ending is not Ending.FINISHED or measurement.measured:
        return None
    if trainer.named and not end.steps_seen and not measurement.steps:  # it did not train
        return Failure(FailureKind.NO_STEP, f"{trainer.name} exited with 0 and printed no training step")
    if spec.objective is None:
        return None
    names = dict.fromkeys(name for reading in measurement.readings for name in reading.metrics)
    near = nearest_lines([spec.objective.key], names)
    what = f"{spec.objective.metric} was not read"
    if spec.launcher != "tmux" and not spec.sources:
        what += "; of the files that a run writes elsewhere, those are read that the notes name: `- source: json PATH`"
    elif near:  # it logs well, and the name is another one
        what += f"; write the name that it has into the notes, `- metric: {near[0]}`; most like it: {', '.join(near)}"
    return Failure(FailureKind.METRIC_UNREAD, what + _nearest(spec.objective, finished.rundir.log))


def printed_numbers(finished: FinishedRun, trainer: Trainer, measurement: Measurement) -> list[PrintedNumber]:
    """Each number that a run printed, the likeliest objective first."""
    lines = tail_lines(finished.rundir.log, max_bytes=_NEAREST_BYTES)
    return with_proposal(numbers_in(measurement.readings, lines, trainer), measurement.readings)


def unread_words(finished: FinishedRun, trainer: Trainer, measurement: Measurement) -> str:
    """What a run without a value has printed instead, and the line that chooses one of the numbers: a sentence."""
    objective = finished.spec.objective
    what = f"{objective.metric} was not read" if objective else "no metric was named"
    best, *others = [one.name for one in printed_numbers(finished, trainer, measurement)] or [""]
    if not best:
        return f"{what}, and {NO_NUMBER}"
    printed = mask_text(", ".join((best, *others)[:_MOST_NAMES]))
    return f"{what}; it printed {printed}: choose one by `--metric '{best}'`, or `- metric: {best}` in the notes"


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
        if len(last) == STAYS and not any(map(math.isfinite, last)):
            return f"{name} is {last[-1]} at each of the last {STAYS} steps"
    return ""


def nearest_in(log: Path, names: Sequence[str], count: int = 3) -> list[str]:
    """The lines at the end of a log that are most similar to one of these names, masked."""
    lines = (clean_line(line) for line in tail_lines(log, max_bytes=_NEAREST_BYTES))
    near = nearest_lines(names, (line for line in lines if line and not line.startswith("$ ")), count)
    return [mask_text(line).strip() for line in near]


def _nearest(objective: Objective, log: Path) -> str:
    """The three log lines most similar to the metric, masked and cut: the end of a sentence."""
    masked = nearest_in(log, [objective.key])
    quoted = ", ".join(f"`{line[:_NEAREST_LINE]}`" for line in masked)
    return f"; nearest in the log: {quoted}" if quoted else "; the log is empty"


def _last_line(log: Path) -> str:
    """The last non-empty line of a log, except the command that autoresearch wrote into it."""
    lines = [clean_line(line) for line in tail_lines(log, max_bytes=1 << 14)]
    return next((line for line in reversed(lines) if line and not line.startswith("$ ")), "")


def _confession(log: Path, patterns: Sequence[str]) -> str:
    """The last line near the log's end that starts with one of the patterns; "" for none."""
    lines = map(clean_line, reversed(list(tail_lines(log, max_bytes=TAIL)))) if patterns else ()
    return next((text for text in lines if any(re.match(one, text) for one in patterns)), "")


def open_stall(happened: list[Event]) -> Event | None:
    """The last report of a stall that no signal followed."""
    found = None
    for event in happened:
        if event.event == "stall":
            found = event
        elif event.event == "resumed":
            found = None
    return found
