"""Reading a metric from the best of several sources, and checking it against the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.metric_keys import readings as split
from autoresearch.core.objective import Objective
from autoresearch.core.signal import Reading, SignalKind
from autoresearch.core.trainer import ReadsLogs, Source, SourceFormat, Trainer
from autoresearch.sinks.console import read_console
from autoresearch.sinks.dict_lines import read_dict_lines
from autoresearch.sinks.jsonl import read_jsonl
from autoresearch.sinks.numbering import merged
from autoresearch.sinks.swarm_val import read_swarm_val
from autoresearch.sinks.tensorboard import read_tensorboard
from autoresearch.sinks.tensorboard import size as tensorboard_size
from autoresearch.sinks.trainer_state import read_trainer_state
from autoresearch.sinks.whole_log import read_whole_log

_EVENTS = (SignalKind.STEP, SignalKind.VALIDATION)
_TOLD = 3  # disagreements that are spelled out per source


@dataclass(frozen=True, slots=True)
class Best:
    """What all sources together say.

    The objective's metric comes from `source` alone; other metrics and steps are added from the others.
    """

    readings: tuple[Reading, ...]
    source: Source | None = None  # None: no source holds the metric
    warnings: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The path of the source that was believed, "" if there is none."""
        return self.source.path if self.source else ""


def read_source(source: Source, base: Path, offset: int, trainer: Trainer) -> list[Reading]:
    """All readings of one source, one per kind and step, in the order in which they were written.

    A relative path is taken from `base`. Bytes before `offset` belong to somebody else. Missing: [].
    """
    path = base / source.path
    if source.format is SourceFormat.JSONL:
        return list(merged(read_jsonl(path, offset)))
    if source.format is SourceFormat.DICT_LINES:
        return list(merged(read_dict_lines(path, offset)))
    if source.format is SourceFormat.SWARM_VAL:
        return list(merged(read_swarm_val(path, offset)))
    if source.format is SourceFormat.TENSORBOARD:
        return list(merged(read_tensorboard(path, offset)))
    if source.format is SourceFormat.TRAINER_STATE:
        return list(merged(read_trainer_state(path)))
    if isinstance(trainer, ReadsLogs):
        found = read_whole_log(path, trainer.reader(), offset)
        return list(merged(part for reading in found for part in _parts(reading)))
    patterns = [signal.pattern for signal in trainer.signals() if signal.kind in _EVENTS]
    found = read_console(path, trainer.read_line, patterns, offset)
    return list(merged(part for reading in found for part in _parts(reading)))


def size_of(source: Source, base: Path = Path()) -> int:
    """Bytes that a source holds now: before a run, what of it is not the run's. 0 where nothing is there.

    A trainer state is written anew each time, and a pattern of directories has no beginning: both are 0.
    """
    path = base / source.path
    if source.format is SourceFormat.TENSORBOARD:
        return tensorboard_size(path)
    if source.format is SourceFormat.TRAINER_STATE:
        return 0
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _parts(reading: Reading) -> tuple[Reading, ...]:
    """A training line that holds a validation too becomes two readings; any other stays as it is."""
    return split(reading.step, reading.metrics) if reading.kind is SignalKind.STEP else (reading,)


def read_best(
    sources: Sequence[Source],
    offsets: Mapping[str, int],
    *,
    trainer: Trainer,
    objective: Objective | None,
    base: Path = Path(),
) -> Best:
    """Read every source; believe the one of the lowest authority number that has the objective's metric.

    offsets: bytes at the start of a source (by its path) that are not this run's. Values of the same step
    that differ by more than rounding, and steps that the believed source lacks, become warnings.
    """
    ranked = sorted(sources, key=lambda source: source.authority)
    found = [(source, read_source(source, base, offsets.get(source.path, 0), trainer)) for source in ranked]
    if objective is None:
        return Best(_united([readings for _, readings in found]))
    metric = objective.metric
    best = next((pair for pair in found if objective.series(pair[1])), None)
    if best is None:
        return Best(_united([readings for _, readings in found]), None, _nowhere(metric, found))
    others = [pair for pair in found if pair[0] is not best[0]]
    warnings = [text for other in others for text in _disagreements(metric, best, other)]
    foreign = [[_without(metric, reading) for reading in readings] for _, readings in others]
    return Best(_united([best[1], *foreign]), best[0], tuple(warnings))


def _united(lists: Sequence[Sequence[Reading]]) -> tuple[Reading, ...]:
    """One reading per kind and step, by step; where sources overlap the earlier one's values stand."""
    found: dict[tuple[SignalKind, int], dict[str, float]] = {}
    for readings in lists:
        for reading in readings:
            known = found.setdefault((reading.kind, reading.step), {})
            for key, value in reading.metrics.items():
                known.setdefault(key, value)
    order = sorted(found, key=lambda key: (key[1], key[0] is SignalKind.VALIDATION))
    return tuple(Reading(kind, step, found[kind, step]) for kind, step in order if found[kind, step])


def _without(metric: str, reading: Reading) -> Reading:
    if metric not in reading.metrics:
        return reading
    return Reading(reading.kind, reading.step, {k: v for k, v in reading.metrics.items() if k != metric})


def _nowhere(metric: str, found: Sequence[tuple[Source, list[Reading]]]) -> tuple[str, ...]:
    names = {key for _, readings in found for reading in readings for key in reading.metrics}
    near = sorted(name for name in names if metric.split("@")[0].rsplit("/", 1)[-1] in name)[:_TOLD]
    hint = f"; it has {', '.join(near)}" if near else "" if names else "; no metric was read at all"
    return (f"no source holds {metric}{hint}",)


def _disagreements(metric: str, best: tuple[Source, list[Reading]], other: tuple[Source, list[Reading]]) -> list[str]:
    believed, seen = _points(metric, best[1]), _points(metric, other[1])
    loose = SourceFormat.CONSOLE in (best[0].format, other[0].format)
    apart = [step for step in seen if step in believed and not _same(believed[step], seen[step], loose=loose)]
    texts = [
        f"{metric} at step {s}: {best[0].path} says {believed[s]:g}, {other[0].path} says {seen[s]:g}"
        for s in apart[:_TOLD]
    ]
    if len(apart) > _TOLD:
        texts.append(f"{metric}: {other[0].path} differs at {len(apart) - _TOLD} more steps")
    lacking = [step for step in seen if step > max(believed)]
    if lacking:
        ends = f"{best[0].path} ends at {max(believed)}"
        texts.append(f"{metric}: {other[0].path} has step {max(lacking)}, {ends}")
    return texts


def _points(metric: str, readings: Sequence[Reading]) -> dict[int, float]:
    """The value at each step; the last one where training and validation both name the metric."""
    return {r.step: r.metrics[metric] for r in readings if metric in r.metrics}


def _same(a: float, b: float, *, loose: bool) -> bool:
    """Equal up to rounding: `%.3f` in an old console, six digits in a newer one, all digits in files."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.isfinite(a) == math.isfinite(b)  # a file logger writes null for NaN and infinity alike
    relative, absolute = (1e-3, 6e-4) if loose else (1e-6, 1e-9)
    return math.isclose(a, b, rel_tol=relative, abs_tol=absolute)
