"""Measure a run: its metric, read by autoresearch itself from the best source."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from autoresearch.core.metrics.objective import Objective
from autoresearch.core.metrics.signal import LineReader, Reading, SignalKind
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Source, SourceFormat, Trainer
from autoresearch.lab.recipes.likely_objective import PrintedNumber
from autoresearch.readers.console import merged, read_whole_log
from autoresearch.readers.read import (
    SourceReadings,
    best_of,
    changed_at,
    mark_of,
    read_source,
    rounded_to,
    same_points,
    size_of,
)
from autoresearch.readers.tracker_dirs import is_several, newest, unnamed_files, written_at
from autoresearch.records import exit_record
from autoresearch.records.recorded_run import FinishedRun, RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.runner.metric_lines import Tables, as_declared, bars, body, by_same_name, is_count, parse
from autoresearch.trainers import registry


class EvaluationLog(LineReader):
    """Reads an evaluation's output: its trainer's or blueprint's lines, else pairs in any spelling, line by line.

    step: assigned to lines that name none, the last trained step. metrics: declared names, read in any spelling.
    """

    def __init__(self, trainer: Trainer, step: int, metrics: Sequence[str] = ()) -> None:
        self.own, self.step = trainer.reader(), step
        self.names, self.tables = by_same_name(metrics), Tables()

    def line(self, text: str) -> Reading | None:
        """The reading of this line; None for a line of the shell's trace, `$ command`."""
        if text.startswith("$ "):
            return None
        found = self._as_trained(text)
        if found is not None:
            return found
        cells = text if bars(text) > 3 else body(text)
        line = self.tables.row(cells) or (None if self.tables.begins(cells) else parse(body(text)))
        if line is None or not line.metrics:
            return None
        step = next((value for value, _ in line.steps.values()), self.step)
        return Reading(SignalKind.VALIDATION, step, as_declared(line.metrics, self.names))

    def end(self) -> Sequence[Reading]:
        """What is still open in the trainer's own reader."""
        return self.own.end()

    def _as_trained(self, text: str) -> Reading | None:
        return self.own.line(text) if not self.own.needles or any(one in text for one in self.own.needles) else None


def numbers_in(readings: Sequence[Reading], lines: Sequence[str], trainer: Trainer) -> list[PrintedNumber]:
    """The numbers in readings and in lines of a log, whatever their spelling; counts are left out."""
    log, found, measured = EvaluationLog(trainer, 0), dict[str, PrintedNumber](), set[str]()
    for one in (*readings, *filter(None, map(log.line, lines))):
        for name, value in one.metrics.items():
            found[name] = replace(found.get(name, PrintedNumber(name, value, value)), last=value)
        measured.update(name for name, value in one.metrics.items() if not is_count(value))
    return [number for name, number in found.items() if name in measured]


MOST_SO_FAR = 16 << 20  # bytes: read in a fraction of a second
MOST_UNNAMED = 32 << 20  # bytes of all files that nobody names
POINTS = 200  # of a curve at most
_MOMENT_S = 1.0  # some file systems round times down

Series = tuple[tuple[int, float], ...]  # (step, value)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measurement:
    """All readings of the best source, the objective's series, and the source."""

    readings: tuple[Reading, ...]
    series: tuple[tuple[int, float], ...] = ()
    last: tuple[int, float] | None = None
    best: tuple[int, float] | None = None
    source: str = ""
    warnings: tuple[str, ...] = ()
    summary: str = ""  # which lines were taken, where nobody declared any
    evaluated: tuple[Reading, ...] = ()  # what its evaluation printed
    printed: tuple[int, float] | None = None  # of an evaluated run: the training's own value of the metric

    @property
    def measured(self) -> bool:
        """Whether the objective has a finite last value."""
        return self.last is not None

    @property
    def curve(self) -> Series:
        """The objective's series as it is recorded and drawn."""
        return drawn(self.series)

    @property
    def steps(self) -> tuple[Reading, ...]:
        """Training readings, by step."""
        return tuple(r for r in self.readings if r.kind is SignalKind.STEP)

    @property
    def validations(self) -> tuple[Reading, ...]:
        """Validation readings, by step."""
        return tuple(r for r in self.readings if r.kind is SignalKind.VALIDATION)


def drawn(points: Sequence[tuple[int, float]]) -> Series:
    """At most so many points of a curve, with six digits."""
    finite = [point for point in points if math.isfinite(point[1])]
    return tuple((step, float(f"{value:.6g}")) for step, value in thinned(finite))


def thinned(points: Sequence[T], most: int = POINTS) -> tuple[T, ...]:
    """So many points of a curve, or readings of a table, evenly spaced, and the last one."""
    kept = points[:: max(1, math.ceil(len(points) / most))]
    return tuple(kept if not points or kept[-1] == points[-1] else [*kept, points[-1]])


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of a run that may hold its metrics: those that it declares, what its trackers wrote, its log.

    Output of earlier runs is left out. `ended`: the trainer ended well, and has printed its last line to its end.
    """

    spec: RunSpec
    trainer: Trainer
    log: Path
    ended: bool = False

    @classmethod
    def of(cls, recorded: RecordedRun, *, ended: bool = False) -> RunFiles:
        """Those of a run, read as its trainer writes them."""
        return cls(recorded.spec, registry.of_run(recorded.spec), recorded.rundir.log, ended)

    @property
    def sources(self) -> list[Source]:
        """The sources of its metrics, the most trusted first, its log last.

        Files last written before the run are left out; a tracker's directory is narrowed to this run's own.
        """
        ours = [own for source in self.spec.sources if (own := self.own(source))]
        console = Source(SourceFormat.CONSOLE, str(self.log), authority=100)
        return [*sorted(ours, key=lambda source: source.authority), console]

    def read(self, source: Source) -> SourceReadings:
        """The readings of one of its sources."""
        size, mark = self._before().get(source.path, (0, ""))
        grown = size_of(source) > size and not (mark and mark != mark_of(source, size))  # else it was written anew
        offset, within = size if grown else 0, self.spec.within
        return read_source(source, Path(), offset, self.trainer, ended=self.ended, within=within)

    def reads(self) -> list[SourceReadings]:
        """The readings of its sources. Where none that is named has the objective, a file counts that the run wrote.

        Such a file goes before the log, as it has every digit; but where the log has the metric too, only if the log's
        values are its own, rounded.
        """
        *named, log = (self.read(source) for source in self.sources)
        objective = None if self.spec.evaluate else self.spec.objective
        key = objective.key if objective else ""
        if objective is None or any(read.points(key) for read in named):
            told = set().union(*(read.keys for read in (*named, log)))
            lacking = {*replace(self.spec, objective=objective).metric_keys} - told
            more = map(self.read, self._unnamed() if lacking or not told else ())
            return [*named, *(read for read in more if read.keys & lacking or not told), log]
        every = (_as_named(self.read(source), by_same_name([key])) for source in self._unnamed())
        holders = [read for read in every if read.points(key)]
        fit = [read for read in holders if rounded_to(log.points(key), read.points(key))]
        printed = bool(log.points(key))
        if fit and (printed or all(same_points(read, fit[0], key) for read in fit)):
            rest = (replace(r, metrics={k: v for k, v in r.metrics.items() if k != key}) for r in log.readings)
            return [*named, fit[0], replace(log, readings=tuple(rest))]
        if paths := " and ".join(read.source.path for read in holders[:3]):
            what = "is not what the log has, which counts" if printed else "differ: name one of them as `- source:`"
            log = replace(log, warnings=(*log.warnings, f"{objective.metric} in {paths} {what}"))
        return [*named, log]

    def _unnamed(self) -> list[Source]:
        """The smallest files of metrics that it wrote and nobody names, within a bound; of single precision last."""
        end = exit_record.read(RunDir(self.log.parent))
        since, until = self.spec.created - _MOMENT_S, end.ended if end and end.ended else math.inf
        room, ours = MOST_UNNAMED, list[Source]()
        for one in sorted(unnamed_files(self.spec, self.log.parent), key=size_of):
            size = size_of(one)
            fresh = since <= written_at(Path(one.path)) <= until
            if fresh and self.spec.held.get(one.path) != f"{size} {mark_of(one, size)}" and (room := room - size) >= 0:
                ours.append(one)
        return sorted(ours, key=lambda one: one.format is SourceFormat.TENSORBOARD)

    def evaluation(self, reads: Sequence[SourceReadings] = ()) -> SourceReadings:
        """The readings of its evaluation, the only ones judged. `reads`: the training's, which give the last step."""
        source = Source(SourceFormat.CONSOLE, str(self.log.with_name("evaluation.log")), authority=-200)
        step = max((reading.step for read in reads for reading in read.readings), default=0)
        log = EvaluationLog(self.trainer, step, self.spec.metric_keys)
        return SourceReadings(source, merged(read_whole_log(Path(source.path), log, ended=True)))

    def measure(self) -> Measurement:
        """Its metrics, from its declared files, JSONL and console, in that order of trust."""
        reads = self.reads()
        told = _judge(reads, self.spec.objective)
        if not self.spec.evaluate:
            return told
        if not told.source:
            told = _judge(reads, None)  # no warning that the training does not log what its evaluation measures
        found = _judge([self.evaluation(reads)], self.spec.objective)
        judged = {name: getattr(found, name) for name in ("series", "last", "best", "source")}
        return replace(told, **judged, evaluated=found.readings, printed=told.last)

    def validations(self) -> tuple[tuple[int, float], ...]:
        """(step, value) of each validation so far, from the most trusted source that has any; for running runs.

        Of an objective that none of them has, of each step. Sources are not compared with each other, and the log is
        read only if no file holds the metric.
        """
        objective = self.spec.objective
        for source in self.sources if objective else ():
            readings = self.read(source).readings
            found = [reading for reading in readings if reading.kind is SignalKind.VALIDATION]
            if objective and (series := objective.series(found) or objective.series(readings)):
                return tuple(series)
        return ()

    def so_far(self) -> float | None:
        """The objective's present value in a running run; None if unknown, or too costly to read.

        Sources over MOST_SO_FAR bytes are left out, and sources are not compared.
        """
        if self.spec.objective is None:
            return None
        cheap = [self.read(source) for source in self.sources if size_of(source) <= MOST_SO_FAR]
        found = best_of(cheap, self.spec.objective)
        point = self.spec.objective.value(found.readings) if found.source else None
        return point[1] if point else None

    def own(self, source: Source) -> Source | None:
        """What this run wrote of a source that its spec names, where it is by now; None if it wrote nothing."""
        source = replace(source, path=self._kept(source.path))
        if is_several(source):
            found = newest(SourceFormat(source.format), Path(source.path), self.spec.created)
            if found is None or source.format is SourceFormat.WANDB:
                return replace(source, path=str(found)) if found else None
            source = replace(source, path=str(found))
        grown = size_of(source) != self._before().get(source.path, (0, ""))[0]
        return source if grown or changed_at(source) > self.spec.created else None

    def _kept(self, path: str) -> str:
        """Where its campaign has put what lay at this path in its worktree, in which other runs write by now."""
        rundir, inside = RunDir(self.log.parent), f"{self.spec.worktree}/"
        moved = self.spec.worktree and path.startswith(inside) and rundir.outputs_record.exists()
        return str(rundir.outputs / path.removeprefix(inside)) if moved else path

    def _before(self) -> dict[str, tuple[int, str]]:
        """Bytes that each file held before the run, and their fingerprint; of several, the file that was the newest."""
        spec, held = self.spec, dict[str, tuple[int, str]]()
        for path, text in spec.held.items():
            bytes_then, _, digest = text.partition(" ")
            held[path] = int(bytes_then), digest
        marks = (*spec.source_marks, *[""] * len(spec.sources))
        for source, size, mark in zip(spec.sources, spec.source_offsets, marks, strict=False):
            digest, _, newest_then = mark.partition(" ")
            held[self._kept(newest_then or source.path)] = size, digest
        return held


def prints(finished: FinishedRun, objective: Objective) -> bool:
    """Whether a run that is over has a value of an objective that is not its own."""
    spec = replace(finished.spec, objective=objective)
    return RunFiles.of(replace(finished, spec=spec), ended=True).measure().measured


def _as_named(read: SourceReadings, names: Mapping[str, str]) -> SourceReadings:
    """The readings with these metrics under their declared names: `val/loss` may be `val_loss`."""
    if read.keys & set(names.values()):
        return read
    return replace(read, readings=tuple(replace(r, metrics=as_declared(r.metrics, names)) for r in read.readings))


def _judge(reads: Sequence[SourceReadings], objective: Objective | None) -> Measurement:
    best = best_of(reads, objective)
    series = tuple(objective.series(best.readings)) if objective else ()
    return Measurement(
        readings=best.readings,
        series=series,
        last=objective.value(best.readings) if objective else None,
        best=objective.best(series) if objective else None,
        source=best.where,
        warnings=best.warnings,
        summary=best.summary,
    )
