"""Measure a run: its metric, read by autoresearch itself from the best source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.diagnosis.failure import Failure
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Source, SourceFormat, Trainer
from autoresearch.readers.console import read_whole_log
from autoresearch.readers.read import (
    TRACKERS,
    Best,
    SourceReadings,
    best_of,
    changed_at,
    mark_of,
    read_all,
    read_source,
    size_of,
)
from autoresearch.readers.step_numbers import merged
from autoresearch.readers.tracker_dirs import is_several, newest
from autoresearch.trainers.evaluation import Evaluation

MOST_SO_FAR = 16 << 20  # bytes: read in a fraction of a second


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
    printed: tuple[int, float] | None = None  # of an evaluated run: the training's own value of the metric

    @property
    def measured(self) -> bool:
        """Whether the objective has a finite last value."""
        return self.last is not None

    @property
    def steps(self) -> tuple[Reading, ...]:
        """Training readings, by step."""
        return tuple(r for r in self.readings if r.kind is SignalKind.STEP)

    @property
    def validations(self) -> tuple[Reading, ...]:
        """Validation readings, by step."""
        return tuple(r for r in self.readings if r.kind is SignalKind.VALIDATION)


def measure(spec: RunSpec, trainer: Trainer, log: Path, *, ended: bool = False) -> Measurement:
    """Read the metrics of a run from its declared files, JSONL and console, in that order of trust.

    `ended`: the trainer ended well, and has printed its last line to its end.
    """
    reads = read_run(spec, trainer, log, ended=ended)
    told = _judge(best_of(reads, spec.objective), spec.objective)
    if not spec.evaluate:
        return told
    found = _judge(best_of([evaluation(spec, trainer, log, reads)], spec.objective), spec.objective)
    return replace(told, series=found.series, last=found.last, best=found.best, source=found.source, printed=told.last)


def objective_series(
    spec: RunSpec, trainer: Trainer, log: Path, *, ended: bool = False
) -> tuple[tuple[int, float], ...]:
    """The objective's points as in `measure`, without its warnings and other metrics.

    Once a source holds the metric, those of less authority are not read: the log of a run that also wrote a file is
    most of the work.
    """
    objective, reads = spec.objective, list[SourceReadings]()
    if objective is None or spec.evaluate:
        return measure(spec, trainer, log, ended=ended).series
    sources = sources_of(spec, log)
    offsets = _offsets(spec, sources)
    for source in sorted(sources, key=lambda source: source.authority):
        reads.append(
            read_source(source, Path(), offsets.get(source.path, 0), trainer, ended=ended, within=spec.within)
        )
        if reads[-1].points(objective.metric):
            break
    return _judge(best_of(reads, objective), objective).series


def evaluation(spec: RunSpec, trainer: Trainer, log: Path, reads: Sequence[SourceReadings] = ()) -> SourceReadings:
    """The readings of a run's evaluation, the only ones judged. `reads`: the training's, which give the last step."""
    source = Source(SourceFormat.CONSOLE, str(log.with_name("evaluation.log")), authority=-200)
    step = max((reading.step for read in reads for reading in read.readings), default=0)
    reader = Evaluation(trainer, step, spec.objective.keys if spec.objective else ()).reader()
    return SourceReadings(source, merged(read_whole_log(Path(source.path), reader, ended=True)))


def read_run(spec: RunSpec, trainer: Trainer, log: Path, *, ended: bool = False) -> list[SourceReadings]:
    """Every source of a run, the most trusted first; output of earlier runs is left out."""
    sources = sources_of(spec, log)
    return read_all(sources, _offsets(spec, sources), trainer=trainer, ended=ended, within=spec.within)


def sources_of(spec: RunSpec, log: Path) -> list[Source]:
    """The sources of a run's metrics, the most trusted first, its log last.

    Files last written before the run are left out; a tracker's directory is narrowed to this run's own.
    """
    console = Source(SourceFormat.CONSOLE, str(log), authority=100)
    ours = [own for source in spec.sources if (own := _own(spec, source))]
    return [*sorted(ours, key=lambda source: source.authority), console]


def _own(spec: RunSpec, source: Source) -> Source | None:
    if is_several(source):
        found = newest(SourceFormat(source.format), Path(source.path), spec.created)
        if found is None or source.format in TRACKERS:
            return replace(source, path=str(found)) if found else None
        source = replace(source, path=str(found))
    grown = size_of(source) != _before(spec).get(source.path, (0, ""))[0]
    return source if grown or changed_at(source) > spec.created else None


def _before(spec: RunSpec) -> dict[str, tuple[int, str]]:
    """Bytes that each file held before the run, and their fingerprint; of several, the file that was the newest."""
    marks = (*spec.source_marks, *[""] * len(spec.sources))
    held = {}
    for source, size, mark in zip(spec.sources, spec.source_offsets, marks, strict=False):
        digest, _, newest_then = mark.partition(" ")
        held[newest_then or source.path] = size, digest
    return held


def validations(spec: RunSpec, trainer: Trainer, log: Path) -> tuple[tuple[int, float], ...]:
    """(step, value) of each validation so far, from the most trusted source that has any; for running runs.

    Sources are not compared with each other, and the log is read only if no file holds the metric.
    """
    objective = spec.objective
    if objective is None:
        return ()
    sources = sources_of(spec, log)
    offsets = _offsets(spec, sources)
    for source in sources:
        readings = read_source(source, Path(), offsets.get(source.path, 0), trainer, within=spec.within).readings
        series = objective.series(r for r in readings if r.kind is SignalKind.VALIDATION)
        if series:
            return tuple(series)
    return ()


def so_far(spec: RunSpec, trainer: Trainer, log: Path) -> float | None:
    """The objective's present value in a running run; None if unknown, or too costly to read.

    Sources over MOST_SO_FAR bytes are left out, and sources are not compared.
    """
    if spec.objective is None:
        return None
    cheap = [source for source in sources_of(spec, log) if size_of(source) <= MOST_SO_FAR]
    found = best_of(read_all(cheap, _offsets(spec, cheap), trainer=trainer, within=spec.within), spec.objective)
    point = spec.objective.value(found.readings) if found.sources else None
    return point[1] if point else None


def _offsets(spec: RunSpec, sources: Sequence[Source]) -> dict[str, int]:
    """Bytes at the start of each source that an earlier run wrote; none for a rewritten file."""
    offsets = {}
    for source in sources:
        size, mark = _before(spec).get(source.path, (0, ""))
        if size_of(source) > size and not (mark and mark != mark_of(source, size)):
            offsets[source.path] = size
    return offsets


def _judge(best: Best, objective: Objective | None) -> Measurement:
    readings = tuple(best.readings)
    if objective is None:
        return Measurement(readings, source=best.where, warnings=best.warnings, summary=best.summary)
    series = objective.series(readings)
    return Measurement(
        readings=readings,
        series=tuple(series),
        last=objective.value(readings),
        best=objective.best(series),
        source=best.where,
        warnings=best.warnings,
        summary=best.summary,
    )


def failure_of(log: Path, trainer: Trainer, *, ended_badly: bool = True) -> Failure | None:
    """The failure that a log alone shows, with the line that proves it.

    ended_badly: whether the run is known to have; otherwise a failure that steps followed does not count.
    """
    from autoresearch.readers.log_end import last_words
    from autoresearch.trainers import ask

    return last_words(log, trainer.signals(), ask.harmless(trainer)).cause(ended_badly=ended_badly)


def traceback_of(log: Path, trainer: Trainer) -> str:
    """The last traceback in the last megabyte of a log that is not harmless; "" without one."""
    from autoresearch.core.diagnosis.root import last_traceback
    from autoresearch.readers.console import tail_lines
    from autoresearch.trainers import ask

    return last_traceback(list(tail_lines(log, max_bytes=1 << 20)), ask.harmless(trainer))
