"""Readout: all metrics of a run or log, from the best available sources, each compared with the others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from autoresearch.core.blueprint.model import directed
from autoresearch.core.metrics.objective import Direction, ExpressionError, Objective, parse, usual_direction
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.ending import Ending
from autoresearch.core.run.trainer import Source, SourceFormat, Trainer
from autoresearch.core.text.numbers import listed
from autoresearch.errors import UsageError
from autoresearch.lab.results.diagnosis import nearest_in
from autoresearch.lab.results.measure import RunFiles
from autoresearch.readers.read import Best, SourceReadings, best_of, disagreements, read_source, sniff
from autoresearch.records import exit_record
from autoresearch.records.files import read_json
from autoresearch.records.recorded_run import Outcome, RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.trainers import registry
from autoresearch.trainers.generic import Generic

MOST_WARNINGS = 8
MOST_NAMES = 30
_LINES = (SourceFormat.JSONL, SourceFormat.JSON, SourceFormat.CSV, SourceFormat.DICT_LINES)  # an object a line
_USUAL = ("loss", "reward", "accuracy", "score")  # metrics of which any log may tell
_NEAREST = 100  # characters of the line that tells most likely of one


@dataclass(frozen=True, slots=True)
class Readout:
    """The metrics, with warnings on their reliability."""

    trainer: str
    reads: tuple[SourceReadings, ...]  # every source, the most trusted first
    best: Best
    objective: Objective | None
    failure: tuple[str, str] | None  # of a run that is over: class, and the line that proves it
    warnings: tuple[str, ...]
    shown: tuple[Reading, ...]  # the requested readings of the best source

    @property
    def source(self) -> Source | None:
        """The source that was used: the objective's, else the first with readings."""
        return self.best.source or next((read.source for read in self.reads if read.readings), None)

    def of(self, kind: SignalKind) -> list[Reading]:
        """The readings of one kind, by step."""
        return [reading for reading in self.shown if reading.kind is kind]

    def filtered(self, patterns: Sequence[str]) -> Readout:
        """Only the metrics whose name matches: a glob, or a part of the name."""
        if not patterns:
            return self
        globs = [pattern if set(pattern) & set("*?[") else f"*{pattern}*" for pattern in patterns]
        kept = []
        for reading in self.shown:
            metrics = {k: v for k, v in reading.metrics.items() if any(fnmatchcase(k, glob) for glob in globs)}
            if metrics:
                kept.append(replace(reading, metrics=metrics))
        if self.shown and not kept:
            names = list(dict.fromkeys(name for reading in self.shown for name in reading.metrics))
            text = f"no metric's name matches {' or '.join(patterns)}; there are {listed(names, MOST_NAMES)}"
            return replace(self, shown=(), warnings=(*self.warnings, text))
        return replace(self, shown=tuple(kept))


def of_run(recorded: RecordedRun, *, metric: str = "") -> Readout:
    """The metrics of a run, alive or over; `metric`: another objective."""
    rundir, spec = recorded.rundir, recorded.spec
    objective = spec.objective if spec.objective and metric in ("", spec.objective.metric) else _objective(metric)
    spec = replace(spec, objective=objective)
    trainer = registry.of_run(spec)
    end = exit_record.read(rundir)
    files = RunFiles(spec, trainer, rundir.log, ended=end is not None and end.returncode == 0)
    reads = files.reads()
    reads[:0] = [files.evaluation(reads)] if end and end.evaluation else []
    found = _readout(trainer, reads, objective, _failure_of_run(rundir))
    declared = [one for one in spec.sources if one.authority < 0]  # or autoresearch had the trainer write it
    unwritten = [f"{one.path} was not written by this run" for one in declared if files.own(one) is None]
    outputs = read_json(rundir.outputs_record) or {}
    if removed := outputs.get("removed"):
        unwritten = [f"its outputs were removed ({outputs['why']}): {listed(removed, MOST_NAMES)}"]
    return replace(found, warnings=(*found.warnings, *unwritten))


def of_log(path: Path, *, trainer: str = "", metric: str = "") -> Readout:
    """The metrics of any log or readable file, with `metric` read as a run reads the one that its blueprint names.

    Without a `trainer`, as that of one that nobody knows. Raises NotFoundError and UsageError for what is no log.
    """
    objective, kind = _objective(metric), sniff(path)
    reader = registry.by_name(trainer or registry.NAMES[-1], metrics=(objective.key,) if objective else ())

    def read_as(kind: str) -> Readout:
        return _readout(reader, [read_source(Source(kind, str(path)), Path(), 0, reader)], objective)

    if kind not in _LINES:
        return read_as(kind)
    if trainer:
        return read_as(SourceFormat.CONSOLE)  # a log of such lines, of which the trainer reads more
    found = read_as(kind)
    if objective and not found.best.source:  # it may be a log, with other spellings
        log = read_as(SourceFormat.CONSOLE)
        return log if log.best.source else found
    return found


def _readout(
    trainer: Trainer,
    reads: Sequence[SourceReadings],
    objective: Objective | None,
    failure: tuple[str, str] | None = None,
) -> Readout:
    best = best_of(reads, objective)
    asked = (objective.key,) if objective else ()
    shared = [key for key in _keys(reads) if key not in asked]
    warnings = [*best.warnings, *disagreements(reads, shared), *_silent(trainer, reads, asked)]
    if len(warnings) > MOST_WARNINGS:
        warnings[MOST_WARNINGS - 1 :] = [f"and {len(warnings) - MOST_WARNINGS + 1} more"]
    return Readout(trainer.name, tuple(reads), best, objective, failure, tuple(warnings), best.readings)


def _keys(reads: Sequence[SourceReadings]) -> list[str]:
    """Metrics that several sources hold."""
    held = Counter(key for read in reads for key in read.keys)
    return sorted(key for key, sources in held.items() if sources > 1)


def _silent(trainer: Trainer, reads: Sequence[SourceReadings], metric_names: Sequence[str]) -> list[str]:
    """Sources without readings, with the reason if visible. metric_names: the metrics that are wanted."""
    texts = []
    for read in reads:
        if read.readings:
            continue
        path = Path(read.source.path)
        if read.source.format is SourceFormat.WANDB:
            texts.append(f"{path} holds no history: its writer flushes late, and a run that was killed hard has none")
        elif not path.exists():
            texts.append(f"{path} is not there")
        elif path.is_file() and not path.stat().st_size:
            texts.append(f"{path} is empty")
        elif read.source.format is SourceFormat.CONSOLE:
            texts.append(f"{path} has no line with metrics {_as_printed_by(trainer, path, metric_names)}")
        else:
            texts.append(f"{path} holds no metrics")
    return texts


def _as_printed_by(trainer: Trainer, path: Path, metric_names: Sequence[str]) -> str:
    if trainer.name == registry.NAMES[-1]:
        if isinstance(trainer, Generic) and trainer.lines:
            return "as the blueprint declares them (`step_line:`)"
        near = [line for line in nearest_in(path, metric_names or _USUAL, 1) if re.search(r"\d", line)]
        like = f"; nearest is `{near[0][:_NEAREST]}`" if near else ""
        how = "`--metric NAME` reads a number of any line, `- step_line:` in a blueprint's notes declares one"
        known = f"--trainer reads one of {', '.join(registry.NAMES[:-1])}"
        return f"in any usual spelling, as `step 10 loss 0.5` (on three lines at least): {how}; {known}{like}"
    return f"as {trainer.name} prints them; without --trainer, any usual spelling is read"


def _objective(metric: str) -> Objective | None:
    if not metric:
        return None
    metric, direction = directed(metric)
    try:
        parse(metric)
    except ExpressionError as error:
        raise UsageError(f"--metric {error}", code="bad_metric") from None
    return Objective(metric, Direction(direction or usual_direction(metric, None)))


def _failure_of_run(rundir: RunDir) -> tuple[str, str] | None:
    """The failure of a run that is over; None while it lives, and after a good ending."""
    done = Outcome.load(rundir)
    if done is None or not done.row.failure or not (done.crashed or done.exit.ending is not Ending.FINISHED):
        return None
    return done.row.failure, done.failure_line or done.exit.reason
