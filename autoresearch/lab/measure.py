"""Measure a run: its metric read by us from the best source there is, never taken on trust."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.failure import Failure
from autoresearch.core.objective import Objective
from autoresearch.core.run import RunSpec
from autoresearch.core.signal import Reading, SignalKind
from autoresearch.core.trainer import Source, SourceFormat, Trainer
from autoresearch.sinks.read import Best, read_best, read_source


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was read: all readings of the best source, the objective's series, and where it came from."""

    readings: tuple[Reading, ...]
    series: tuple[tuple[int, float], ...] = ()
    last: tuple[int, float] | None = None
    best: tuple[int, float] | None = None
    source: str = ""
    warnings: tuple[str, ...] = ()

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


def measure(spec: RunSpec, trainer: Trainer, log: Path) -> Measurement:
    """Read the metrics of a run from its declared files, JSONL and console, in that order of trust."""
    console = Source(SourceFormat.CONSOLE, str(log), authority=100)
    sources = [*sorted(spec.sources, key=lambda s: s.authority), console]
    best = read_best(sources, _offsets(spec, sources), trainer=trainer, objective=spec.objective)
    return _judge(best, spec.objective)


def validations(spec: RunSpec, trainer: Trainer, log: Path) -> tuple[tuple[int, float], ...]:
    """(step, value) of each validation so far, from the most trusted source that has any; for runs that still train.

    Nothing is checked against other sources, and the log is read only where no file holds the metric.
    """
    objective = spec.objective
    if objective is None:
        return ()
    console = Source(SourceFormat.CONSOLE, str(log), authority=100)
    sources = [*sorted(spec.sources, key=lambda s: s.authority), console]
    offsets = _offsets(spec, sources)
    for source in sources:
        readings = read_source(source, Path(), offsets.get(source.path, 0), trainer)
        series = objective.series(r for r in readings if r.kind is SignalKind.VALIDATION)
        if series:
            return tuple(series)
    return ()


def _offsets(spec: RunSpec, sources: Sequence[Source]) -> dict[str, int]:
    """Bytes at the start of a file that an earlier run wrote; a file that was rewritten has none."""
    known = {s.path: n for s, n in zip(spec.sources, spec.source_offsets, strict=False)}
    offsets: dict[str, int] = {}
    for source in sources:
        try:
            found = Path(source.path).stat()
        except OSError:
            continue
        held = known.get(source.path, 0)
        untouched = found.st_size == held and found.st_mtime <= spec.created
        offsets[source.path] = held if found.st_size > held or untouched else 0
    return offsets


def _judge(best: Best, objective: Objective | None) -> Measurement:
    readings = tuple(best.readings)
    if objective is None:
        return Measurement(readings, source=best.where, warnings=best.warnings)
    series = objective.series(readings)
    return Measurement(
        readings=readings,
        series=tuple(series),
        last=objective.last(series),
        best=objective.best(series),
        source=best.where,
        warnings=best.warnings,
    )


def failure_of(log: Path, trainer: Trainer) -> tuple[Failure | None, str]:
    """The failure class of a log and its last traceback; reads the last megabyte."""
    from autoresearch.core.failure import classify, traceback
    from autoresearch.core.harmless import sifted
    from autoresearch.sinks.console import tail_lines
    from autoresearch.trainers import ask

    lines = sifted(tail_lines(log, max_bytes=1 << 20), ask.harmless(trainer))
    return classify(lines), traceback(lines)
