"""Find what a run wrote among what other runs did: directories of W&B, and files that a pattern names."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import SUFFIXES, Source, SourceFormat
from autoresearch.readers.jsonl import TRAINER_STATE
from autoresearch.records.rundir import RunDir

_RUNS = ("run-*", "offline-run-*")
_LINES = {
    SourceFormat.JSONL: (".jsonl", ".ndjson", ".json"),
    SourceFormat.JSON: (".json",),
    SourceFormat.CSV: (".csv", ".tsv"),
    SourceFormat.DICT_LINES: (".txt", ".log"),
}
_NO_OUTPUT = frozenset({"__pycache__", "venv", "node_modules", "site-packages", "data", "dataset", "datasets"})
_MOST_UNNAMED = 1000
_MOST_FILES = 20_000  # looked at below a directory, or for a pattern
_SAME_SECOND = 1.0  # seconds; some file systems round times down


def unnamed_files(spec: RunSpec, run_dir: Path) -> list[Source]:
    """What may hold metrics by its name where a run of this machine works, or where its campaign keeps its outputs.

    None that its spec names, and none of our records; nothing of a run elsewhere.
    """
    rundir, records = RunDir(run_dir), Path(spec.ledger).parent.parent
    tree = rundir.outputs if rundir.outputs_record.exists() else Path(spec.worktree or spec.cwd)
    roots = (tree, Path(spec.result_dir)) if spec.launcher == "tmux" else ()
    found = {one.path: one for root in roots for one in islice(_by_name(root, (run_dir, records)), _MOST_UNNAMED)}
    return [found[path] for path in sorted(found.keys() - {source.path for source in spec.sources})]


def _by_name(root: Path, without: Collection[Path]) -> Iterator[Source]:
    """Files that are called as those of metrics, and directories of event files or a tracker's run; by no link."""
    looked = 0
    for directory, folders, names in os.walk(root):
        looked += len(names)
        if looked > _MOST_FILES:
            return
        inner = (name for name in folders if name[0] != "." and name not in _NO_OUTPUT)
        folders[:] = sorted(name for name in inner if Path(directory, name) not in without)
        whole = dict[SourceFormat, str]()
        for name in sorted(names):
            suffix = os.path.splitext(name)[1]  # noqa: PTH122 - of thousands of files
            if ".tfevents." in name or suffix == ".wandb":
                whole[SourceFormat.WANDB if suffix == ".wandb" else SourceFormat.TENSORBOARD] = directory
            elif suffix in SUFFIXES and not (path := Path(directory, name)).is_symlink():
                yield Source(SourceFormat.TRAINER_STATE if name == TRAINER_STATE else SUFFIXES[suffix], str(path))
        yield from (Source(kind, path) for kind, path in whole.items())


def newest(source_format: SourceFormat, where: Path, since: float = 0.0) -> Path | None:
    """The most recently written run: `where` itself if it is a run or a file of one, else the newest run below it.

    where: a run, the directory of all runs, or its parent directory. Of lines, the newest file that a pattern matches,
    or that lies below a directory: Hydra gives each run a directory named after its date. since: Unix time in seconds;
    runs last written before it are ignored. None if there is no run.
    """
    if source_format in _LINES:
        files = [(written_at(file), str(file), file) for file in islice(_files(source_format, where), _MOST_FILES)]
        fresh = [file for file in files if file[0] >= since - _SAME_SECOND]
        return max(fresh)[2] if fresh else None
    if where.is_file() or _is_run(where):
        return where if written_at(where) >= since - _SAME_SECOND else None
    found: list[tuple[float, str, Path]] = []
    for home in (where, where / "wandb"):
        runs = [run for pattern in _RUNS for run in home.glob(pattern) if _is_run(run)]
        found += [(written_at(run), run.name, run) for run in runs]
    wanted = [run for run in found if run[0] >= since - _SAME_SECOND]
    return max(wanted)[2] if wanted else None


def is_several(source: Source) -> bool:
    """Whether it names one file of several, so that which of them is the run's shows only when it was written."""
    lines = source.format in _LINES and (bool(set(source.path) & set("*?[")) or Path(source.path).is_dir())
    return lines or source.format is SourceFormat.WANDB


def _files(source_format: SourceFormat, where: Path) -> Iterator[Path]:
    """The files that a pattern matches; of a directory, those below it that are named as their format is."""
    if where.is_dir():
        for directory, _, names in os.walk(where):
            yield from (Path(directory, name) for name in names if name.endswith(_LINES[source_format]))
        return
    yield from (path for path in there(where) if path.is_file())


def there(pattern: Path) -> list[Path]:
    """Existing paths that match a path or pattern, sorted."""
    normal = Path(os.path.normpath(pattern))
    return sorted(Path(normal.anchor).glob(str(normal.relative_to(normal.anchor))))


def _is_run(path: Path) -> bool:
    """Whether this is the directory of one run of W&B."""
    return path.is_dir() and (any(path.glob("*.wandb")) or (path / "files/wandb-summary.json").is_file())


def written_at(run: Path) -> float:
    """Modification time of a run's most recent file, down to its metrics; Unix time in seconds."""
    files = [run] if run.is_file() else [*run.glob("*"), *run.glob("files/*")]
    times = []
    for path in files:
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)
