"""Read a metric from the best of several sources, and check it against the others."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from autoresearch.core.metrics.expression import near_miss
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.metrics.signal import readings as split
from autoresearch.core.run.trainer import SUFFIXES, Source, SourceFormat, Trainer
from autoresearch.core.statistics.seeding import last_digit
from autoresearch.errors import NotFoundError, UsageError
from autoresearch.readers import tracker_runs
from autoresearch.readers.console import cut_line, merged, read_whole_log
from autoresearch.readers.jsonl import (
    TRAINER_STATE,
    read_csv,
    read_json,
    read_jsonl,
    read_swarm_val,
    read_trainer_state,
    state_file,
)
from autoresearch.readers.registry import read_by_plugin, recognised
from autoresearch.readers.tensorboard import event_files, read_tensorboard
from autoresearch.readers.tensorboard import size as tensorboard_size
from autoresearch.readers.tracker_dirs import is_several, newest
from autoresearch.readers.tracker_runs import read_swanlab, read_wandb
from autoresearch.records.hostile import bounds, is_readable, open_readable
from autoresearch.runner.text import plain

# Sniff: detect the format of a metrics file or directory from its content, and from its name only as a last resort.

_HEAD = 1 << 16
_TEXT_CONTROL = frozenset(b"\t\n\r\x0b\x0c\x08\x07\x1b")
_LONGEST = 600  # characters of a summary, which quotes a line; secrets in it are masked
_AGENTJET = (b"'global_step", b"'training/global_step'", b"'step'", b"task_pass_rate@")


def sniff(path: Path) -> str:
    """The format of a file or directory: a SourceFormat, or a plug-in's; CONSOLE for any other text, even an empty one.

    NotFoundError if nothing with metrics exists there, UsageError for a file that is neither text nor a supported
    binary format.
    """
    if path.is_dir():
        return _of_directory(path)
    if not path.exists():
        raise NotFoundError(f"{path} is not there", hint="a log, a file of metrics, or a directory of them")
    if not path.is_file():
        raise UsageError(f"{path} is neither a file nor a directory", code="not_a_file")
    if ".tfevents." in path.name:
        return SourceFormat.TENSORBOARD
    if path.name == TRAINER_STATE:
        return SourceFormat.TRAINER_STATE
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(tracker_runs.WANDB):
        return SourceFormat.WANDB
    if head.startswith(tracker_runs.SWANLAB):
        return SourceFormat.SWANLAB
    if name := recognised(path):
        return name
    check_text(path, head)
    return _of_text(path, head.lstrip(b"\0 \t\r\n"))


def check_text(path: Path, head: bytes) -> None:
    """Raise UsageError if these first bytes of a file cannot belong to a log.

    NULs at the start are allowed: they remain when a log is truncated while its writer continues.
    """
    seen = head.lstrip(b"\0")
    odd = sum(byte < 32 and byte not in _TEXT_CONTROL for byte in seen)
    if odd * 20 > len(seen):
        raise UsageError(
            f"{path} is no text: it begins with {head[:8].hex(' ')}",
            hint="give a log as it was printed, not packed; --source reads event files, .wandb and .swanlab",
            code="binary_file",
        )


def _of_directory(path: Path) -> str:
    if event_files(path):
        return SourceFormat.TENSORBOARD
    for kind in (SourceFormat.WANDB, SourceFormat.SWANLAB):
        if newest(kind, path):
            return kind
    if state_file(path):
        return SourceFormat.TRAINER_STATE
    if name := recognised(path):
        return name
    raise NotFoundError(
        f"{path} holds no metrics that can be read",
        hint="event files of TensorBoard, runs of W&B or SwanLab, or a trainer_state.json",
        code="no_metrics",
    )


def _of_text(path: Path, seen: bytes) -> SourceFormat:
    if seen.startswith(b"{'"):
        first = seen.partition(b"\n")[0]  # of other programs, the log is read, whatever their step is called
        return SourceFormat.DICT_LINES if any(name in first for name in _AGENTJET) else SourceFormat.CONSOLE
    if seen.startswith(b"## Step "):
        return SourceFormat.SWARM_VAL
    if path.suffix in SUFFIXES:
        return SourceFormat(SUFFIXES[path.suffix])
    if seen.startswith((b'{"', b'{ "')):
        return SourceFormat.JSONL
    return SourceFormat.CONSOLE


_READ = {
    SourceFormat.JSONL: read_jsonl,
    SourceFormat.JSON: read_json,
    SourceFormat.CSV: read_csv,
    SourceFormat.DICT_LINES: read_jsonl,
    SourceFormat.SWARM_VAL: read_swarm_val,
}
_APPENDED = (*_READ, SourceFormat.CONSOLE)
TRACKERS = {SourceFormat.WANDB: read_wandb, SourceFormat.SWANLAB: read_swanlab}
_TOLD = 3  # disagreements listed in full per source
_MARKED = 4096  # bytes at either end
MOST = 4 << 30  # bytes of a file of metrics


@dataclass(frozen=True, slots=True)
class SourceReadings:
    """All readings of one source."""

    source: Source
    readings: tuple[Reading, ...]
    warnings: tuple[str, ...] = ()  # what could not be read
    summary: str = ""  # which lines were taken, where nobody declared any

    def points(self, key: str) -> dict[int, float]:
        """The value at each step; the later one if training and validation both have the metric."""
        return {r.step: r.metrics[key] for r in self.readings if key in r.metrics}

    @property
    def ordinal(self) -> bool:
        """Whether its steps are only counted; they are not those of a source that names them."""
        return any(reading.ordinal for reading in self.readings)

    @property
    def keys(self) -> set[str]:
        return set().union(*(reading.metrics for reading in self.readings))


@dataclass(frozen=True, slots=True)
class Best:
    """The combined readings of all sources.

    The objective's metrics come from `sources` alone, several if it is an expression over keys of several sources;
    other metrics and steps are added from the remaining sources.
    """

    readings: tuple[Reading, ...]
    sources: tuple[Source, ...] = ()  # () if no source holds the metric, or a part of it
    warnings: tuple[str, ...] = ()
    summary: str = ""  # which lines were taken, where nobody declared any

    @property
    def source(self) -> Source | None:
        """The first source of the objective's metric; None if there is none."""
        return self.sources[0] if self.sources else None

    @property
    def where(self) -> str:
        """The paths of these sources, joined by commas; "" if there are none."""
        return ", ".join(source.path for source in self.sources)


def read_source(
    source: Source,
    base: Path,
    offset: int,
    trainer: Trainer,
    *,
    ended: bool = False,
    within: Sequence[str] = (),
) -> SourceReadings:
    """All readings of one source, one per kind and step, in order of first appearance.

    A relative path is resolved against `base`. Bytes before `offset` are not this run's. A missing source has none.
    `ended`: the writer ended cleanly, so a log's last line is complete even without a newline. `within`: the real
    directories in which a file must lie (`records.hostile`); (): anywhere. What is not read for that is a warning.
    """
    with bounds(within, None if source.format is SourceFormat.CONSOLE else MOST) as limits:
        path, read = base / source.path, SourceReadings(source, ())
        if not path.exists() or path.is_dir() or is_readable(path):
            read = _read_source(source, path, offset, trainer, ended=ended)
    return replace(read, warnings=(*limits.refused, *read.warnings))


def _read_source(source: Source, path: Path, offset: int, trainer: Trainer, *, ended: bool) -> SourceReadings:
    if source.format is not SourceFormat.CONSOLE:
        return SourceReadings(source, tuple(merged(_read_file(source, path, offset, trainer))))
    reader = trainer.reader()
    lines = read_whole_log(path, reader, offset, ended=ended)
    readings = merged(part for reading in lines for part in _parts(reading))
    warnings = [_no_number(path, name, text) for name, text in reader.unread.items()]
    if cut := cut_line(path, reader, ended=ended):
        warnings.append(f"{path} ends with a line that is cut, whose values are missing: `{cut}`")
    return SourceReadings(source, readings, tuple(warnings), plain(reader.summary, _LONGEST))


def _read_file(source: Source, path: Path, offset: int, trainer: Trainer) -> Iterable[Reading]:
    """The readings of a file of metrics."""
    if source.format in _READ:
        return _READ[SourceFormat(source.format)](path, offset)
    if source.format is SourceFormat.TENSORBOARD:
        return read_tensorboard(path, offset, trainer.key_of)
    if source.format is SourceFormat.TRAINER_STATE:
        return read_trainer_state(path)
    if source.format not in TRACKERS:
        return read_by_plugin(source.format, path, offset)
    run = newest(SourceFormat(source.format), path)
    return TRACKERS[SourceFormat(source.format)](run) if run else ()


def _no_number(path: Path, name: str, text: str) -> str:
    what = "step, so the line is left out" if name == "step" else "number"
    return f"{path}: where the declared line names `{name}`, `{plain(text, 40)}` is no {what}"


def size_of(source: Source, base: Path = Path()) -> int:
    """Current size of a source in bytes, which before a run's start is what does not belong to the run. 0 if missing.

    Also 0 for a trainer state, which is rewritten each time, a tracker, which creates a directory per run, and a glob
    of TensorBoard's directories. Of a glob of files of lines, the size of the newest.
    """
    path = base / source.path
    if source.format is SourceFormat.TENSORBOARD:
        return tensorboard_size(path)
    if source.format is SourceFormat.TRAINER_STATE or source.format in TRACKERS:
        return 0
    try:
        file = newest(SourceFormat(source.format), path) if is_several(source) else path
        return file.stat().st_size if file else 0
    except OSError:
        return 0


def mark_of(source: Source, size: int) -> str:
    """A fingerprint of the first `size` bytes of an appended file; it changes if the file is rewritten.

    "" if `size` is 0, and for formats that are never rewritten in place. Of a glob, the path of the newest file follows
    after a blank.
    """
    if not size or source.format not in _APPENDED:
        return ""
    several = newest(SourceFormat(source.format), Path(source.path)) if is_several(source) else None
    try:
        with open_readable(several or Path(source.path)) as file:
            begin = file.read(min(size, _MARKED))
            file.seek(max(0, size - _MARKED))
            digest = sha256(begin + file.read(min(size, _MARKED))).hexdigest()[:16]
            return f"{digest} {several}" if several else digest
    except OSError:
        return ""


def changed_at(source: Source, base: Path = Path()) -> float:
    """Time of the last write, in seconds since the epoch; 0 if the source is missing."""
    path = base / source.path
    files = [path]
    if source.format is SourceFormat.TENSORBOARD:
        files = event_files(path)
    elif source.format is SourceFormat.TRAINER_STATE:
        files = [found] if (found := state_file(path)) else []
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)


def _parts(reading: Reading) -> Iterable[Reading]:
    """Split a training line that also holds a validation into two readings; leave any other reading unchanged."""
    if reading.kind is SignalKind.VALIDATION:
        return (reading,)
    return (replace(part, ordinal=reading.ordinal) for part in split(reading.step, reading.metrics))


def best_of(source_readings: Sequence[SourceReadings], objective: Objective | None) -> Best:
    """Use the source with the lowest authority number, the first of these, that has the objective's metric.

    Values of the same step that differ by more than rounding, and steps that the chosen source lacks, become warnings.
    """
    doubts = tuple(text for read in source_readings for text in read.warnings)
    summary = next((read.summary for read in source_readings if read.summary), "")
    if objective is None:
        return Best(_united([read.readings for read in source_readings]), (), doubts, summary)
    names = {key for read in source_readings for key in read.keys}
    keys = objective.keys_among(names)
    holders = {key: read for key in keys for read in reversed(source_readings) if read.points(key)}
    if lacking := [key for key in keys if key not in holders]:
        told = (*_nowhere(objective.metric, lacking, names), *doubts)
        return Best(_united([read.readings for read in source_readings]), (), told, summary)
    warnings = [*disagreements(source_readings, keys), *doubts]
    order = sorted(source_readings, key=lambda read: read not in holders.values())
    ours = [[_of(read, reading, holders) for reading in read.readings] for read in order]
    sources = tuple(dict.fromkeys(holders[key].source for key in keys))
    return Best(_united(ours, kept=len(sources)), sources, tuple(warnings), summary)


def disagreements(source_readings: Sequence[SourceReadings], keys: Iterable[str]) -> list[str]:
    """Differences in these metrics between their most authoritative source and each other source."""
    texts: list[str] = []
    for key in keys:
        holders = [(read, points) for read in source_readings if (points := read.points(key))]
        for other in holders[1:]:
            if other[0].ordinal == holders[0][0].ordinal:
                texts += _disagreements(key, holders[0], other)
    return texts


def _united(lists: Sequence[Sequence[Reading]], kept: int = 0) -> tuple[Reading, ...]:
    """One reading per kind and step, ordered by step; if lists overlap, the earlier list's values win.

    Steps that are only counted and steps that are named do not go together: the first list's are taken. kept: how many
    lists at the beginning are taken anyway.
    """
    counted = next((any(one.ordinal for one in readings) for readings in lists if readings), False)
    alike = [readings for readings in lists[kept:] if any(one.ordinal for one in readings) == counted]
    lists = [*lists[:kept], *alike]
    found: dict[tuple[int, bool], Reading] = {}
    for readings in lists:
        for reading in readings:
            key = reading.step, reading.kind is SignalKind.VALIDATION
            known = found.setdefault(key, reading)
            if known is not reading:
                found[key] = replace(known, metrics={**known.metrics, **reading.metrics, **known.metrics})
    return tuple(found[key] for key in sorted(found) if found[key].metrics)


def _of(source_readings: SourceReadings, reading: Reading, holders: Mapping[str, SourceReadings]) -> Reading:
    """The reading without those metrics that are taken from another source."""
    foreign = [key for key in holders if key in reading.metrics and holders[key] is not source_readings]
    if not foreign:
        return reading
    return replace(reading, metrics={k: v for k, v in reading.metrics.items() if k not in foreign})


def _nowhere(metric: str, lacking: Sequence[str], names: Collection[str]) -> tuple[str, ...]:
    texts = []
    for key in lacking:
        near = sorted(name for name in names if key.split("@")[0].rsplit("/", 1)[-1] in name)[:_TOLD]
        hint = f"; it has {', '.join(near)}" if near else "" if names else "; no metric was read at all"
        meant = near_miss(key)
        hint += f"; or did you mean {meant}?" if meant else ""
        what = key if key == metric else f"{key}, which {metric} needs"
        texts.append(f"no source holds {what}{hint}")
    return tuple(texts)


def _disagreements(
    metric: str,
    reference: tuple[SourceReadings, Mapping[int, float]],
    compared: tuple[SourceReadings, Mapping[int, float]],
) -> list[str]:
    (trusted, believed), (doubted, seen) = reference, compared
    ours, theirs = trusted.source, doubted.source
    loose = SourceFormat.CONSOLE in (ours.format, theirs.format)
    apart = [step for step in seen if step in believed and not _same(believed[step], seen[step], loose=loose)]
    texts = [
        f"{metric} at step {s}: {ours.path} says {believed[s]:g}, {theirs.path} says {seen[s]:g}" for s in apart[:_TOLD]
    ]
    if len(apart) > _TOLD:
        texts.append(f"{metric}: {theirs.path} differs at {len(apart) - _TOLD} more steps")
    last = max(believed)
    if lacking := [step for step in seen if step > last]:
        texts.append(f"{metric}: {theirs.path} has step {max(lacking)}, {ours.path} ends at {last}")
    return texts


def rounded_to(printed: Mapping[int, float], written: Mapping[int, float]) -> bool:
    """Whether printed values are written ones, in this order and with fewer digits; more may be written in between."""
    shown, whole = list(printed.values()), list(filter(math.isfinite, written.values()))
    if not all(map(math.isfinite, shown)) or last_digit(whole) > (unit := last_digit(shown)):
        return False
    left = iter(whole)
    return all(any(abs(one - value) <= max(0.51 * unit, 5e-4 * abs(value)) for one in left) for value in shown)


def same_points(a: SourceReadings, b: SourceReadings, keys: Iterable[str]) -> bool:
    """Whether two sources have the same values of these metrics, up to single precision, whatever their steps."""
    pairs = [(a.points(key).values(), b.points(key).values()) for key in keys]
    return all(len(x) == len(y) and all(map(_single, x, y)) for x, y in pairs)


def _single(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))


def _same(a: float, b: float, *, loose: bool) -> bool:
    """Whether two values are equal up to rounding: `%.3f` in older consoles, six digits in newer ones, all in files."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.isfinite(a) == math.isfinite(b)  # a file logger writes null for both NaN and infinity
    relative, absolute = (1e-3, 6e-4) if loose else (1e-6, 1e-9)
    return math.isclose(a, b, rel_tol=relative, abs_tol=absolute)
