"""Read a metric from the best of several sources, and check it against the others."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from autoresearch.core.metrics.objective import Objective, near_miss
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.metrics.signal import readings as split
from autoresearch.core.run.trainer import SUFFIXES, Source, SourceFormat, Trainer
from autoresearch.core.statistics.seeding import last_digit
from autoresearch.errors import AutoresearchError, NotFoundError, UsageError
from autoresearch.plugins import PluginWarning, Registry
from autoresearch.readers.binary_metrics import WANDB, event_files, read_tensorboard, read_wandb
from autoresearch.readers.binary_metrics import size as tensorboard_size
from autoresearch.readers.console import merged, read_whole_log
from autoresearch.readers.jsonl import (
    TRAINER_STATE,
    read_csv,
    read_json,
    read_jsonl,
    read_trainer_state,
    state_file,
)
from autoresearch.readers.tracker_dirs import is_several, newest
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
    if head.startswith(WANDB):
        return SourceFormat.WANDB
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
            hint="give a log as it was printed, not packed, or the directory of event files or of a W&B run",
            code="binary_file",
        )


def _of_directory(path: Path) -> str:
    if event_files(path):
        return SourceFormat.TENSORBOARD
    if newest(SourceFormat.WANDB, path):
        return SourceFormat.WANDB
    if state_file(path):
        return SourceFormat.TRAINER_STATE
    raise NotFoundError(
        f"{path} holds no metrics that can be read",
        hint="event files of TensorBoard, runs of W&B, or a trainer_state.json",
        code="no_metrics",
    )


def _of_text(path: Path, seen: bytes) -> SourceFormat:
    if seen.startswith(b"{'"):
        first = seen.partition(b"\n")[0]  # of other programs, the log is read, whatever their step is called
        return SourceFormat.DICT_LINES if any(name in first for name in _AGENTJET) else SourceFormat.CONSOLE
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
}
_APPENDED = (*_READ, SourceFormat.CONSOLE)
_TOLD = 3  # names like one that no source has
_MARKED = 4096  # bytes at either end
MOST = 4 << 30  # bytes of a file of metrics


class MetricReader(Protocol):
    """Reads the files of one format. Instances are stateless."""

    def read(self, path: Path, offset: int) -> Iterable[Reading]:
        """The readings in order of their steps; those in the first `offset` bytes of a file are an earlier run's.

        The file may be missing, or end in the middle of a record that is being written: then it has fewer readings.
        """


READERS = Registry("readers")
"""Those of plug-ins, by the name of their format."""


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

    The objective's metric comes from `source` alone; other metrics and steps are added from the remaining sources.
    """

    readings: tuple[Reading, ...]
    source: Source | None = None  # None if no source holds the metric
    warnings: tuple[str, ...] = ()
    summary: str = ""  # which lines were taken, where nobody declared any

    @property
    def where(self) -> str:
        """The path of the source; "" if there is none."""
        return self.source.path if self.source else ""


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
    return SourceReadings(source, readings, tuple(warnings), plain(reader.summary, _LONGEST))


def _read_file(source: Source, path: Path, offset: int, trainer: Trainer) -> Iterable[Reading]:
    """The readings of a file of metrics."""
    if source.format in _READ:
        return _READ[SourceFormat(source.format)](path, offset)
    if source.format is SourceFormat.TENSORBOARD:
        return read_tensorboard(path, offset, trainer.key_of)
    if source.format is SourceFormat.TRAINER_STATE:
        return read_trainer_state(path)
    if source.format is SourceFormat.WANDB:
        return read_wandb(run) if (run := newest(SourceFormat.WANDB, path)) else ()
    return _read_by_plugin(source.format, path, offset)


def _read_by_plugin(source_format: str, path: Path, offset: int) -> tuple[Reading, ...]:
    """The readings of a file in a format that is not ours; with a warning, () where no plug-in can read it."""
    try:
        reader: MetricReader = READERS.get(source_format)()
    except AutoresearchError as error:
        warnings.warn(f"{path} is not read: {error.message}", PluginWarning, stacklevel=2)
        return ()
    return tuple(reader.read(path, offset))


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
    if source.format in (SourceFormat.TRAINER_STATE, SourceFormat.WANDB):
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
    names = {key for read in source_readings for key in read.keys}
    key = objective.key_among(names) if objective else ""
    ours = next((read for read in source_readings if objective and read.points(key)), None)
    if ours is None:
        told = (_nowhere(key, names), *doubts) if objective else doubts
        return Best(_united([read.readings for read in source_readings]), None, told, summary)
    others = [_without(read.readings, key) for read in source_readings if read is not ours]
    warnings = (*disagreements(source_readings, [key]), *doubts)
    return Best(_united([ours.readings, *others]), ours.source, warnings, summary)


def disagreements(source_readings: Sequence[SourceReadings], keys: Iterable[str]) -> list[str]:
    """Differences in these metrics between their most authoritative source and each other source."""
    texts: list[str] = []
    for key in keys:
        holders = [(read, points) for read in source_readings if (points := read.points(key))]
        for other in holders[1:]:
            if other[0].ordinal == holders[0][0].ordinal:
                texts += _disagreements(key, holders[0], other)
    return texts


def _united(lists: Sequence[Sequence[Reading]]) -> tuple[Reading, ...]:
    """One reading per kind and step, ordered by step; if lists overlap, the earlier list's values win.

    Steps that are only counted and steps that are named do not go together: the first list's are taken.
    """
    counted = next((any(one.ordinal for one in readings) for readings in lists if readings), False)
    found: dict[tuple[int, bool], Reading] = {}
    for readings in (readings for readings in lists if any(one.ordinal for one in readings) == counted):
        for reading in readings:
            key = reading.step, reading.kind is SignalKind.VALIDATION
            known = found.setdefault(key, reading)
            if known is not reading:
                found[key] = replace(known, metrics={**known.metrics, **reading.metrics, **known.metrics})
    return tuple(found[key] for key in sorted(found) if found[key].metrics)


def _without(readings: Iterable[Reading], key: str) -> list[Reading]:
    """The readings without a metric that is taken from another source."""
    return [replace(one, metrics={k: v for k, v in one.metrics.items() if k != key}) for one in readings]


def _nowhere(key: str, names: Collection[str]) -> str:
    near = sorted(name for name in names if key.split("@")[0].rsplit("/", 1)[-1] in name)[:_TOLD]
    hint = f"; it has {', '.join(near)}" if near else "" if names else "; no metric was read at all"
    meant = near_miss(key)
    hint += f"; or did you mean {meant}?" if meant else ""
    combined = re.search(r" [-+*/] ", key)
    return f"no source holds {key}{hint}" + ("; metrics are not combined: log the result" if combined else "")


def _disagreements(
    metric: str,
    reference: tuple[SourceReadings, Mapping[int, float]],
    compared: tuple[SourceReadings, Mapping[int, float]],
) -> list[str]:
    (trusted, believed), (doubted, seen) = reference, compared
    ours, theirs = trusted.source, doubted.source
    loose = SourceFormat.CONSOLE in (ours.format, theirs.format)
    apart = [step for step in seen if step in believed and not _same(believed[step], seen[step], loose=loose)]
    texts = []
    if apart:
        first, more = apart[0], f", and at {len(apart) - 1} more steps they differ" if apart[1:] else ""
        said = f"{ours.path} says {believed[first]:g}, {theirs.path} says {seen[first]:g}"
        texts.append(f"{metric} at step {first}: {said}{more}")
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


def same_points(a: SourceReadings, b: SourceReadings, key: str) -> bool:
    """Whether two sources have the same values of a metric, up to single precision, whatever their steps."""
    ours, theirs = a.points(key).values(), b.points(key).values()
    return len(ours) == len(theirs) and all(map(_single, ours, theirs))


def _single(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))


def _same(a: float, b: float, *, loose: bool) -> bool:
    """Whether two values are equal up to rounding: `%.3f` in older consoles, six digits in newer ones, all in files."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.isfinite(a) == math.isfinite(b)  # a file logger writes null for both NaN and infinity
    relative, absolute = (1e-3, 6e-4) if loose else (1e-6, 1e-9)
    return math.isclose(a, b, rel_tol=relative, abs_tol=absolute)
