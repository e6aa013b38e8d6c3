"""Find the run directories of W&B and SwanLab, one per run below `wandb/` or `swanlog/`."""

from __future__ import annotations

from pathlib import Path

from autoresearch.core.run.trainer import SourceFormat

_HOME = {SourceFormat.WANDB: "wandb", SourceFormat.SWANLAB: "swanlog"}
_FILES = {  # a run has at least one of these
    SourceFormat.WANDB: ("*.wandb", "files/wandb-history.jsonl", "files/wandb-summary.json"),
    SourceFormat.SWANLAB: ("*.swanlab", "logs/*/*.log"),
}
_RUNS = ("run-*", "offline-run-*")
_SAME_SECOND = 1.0  # seconds; some file systems round times down


def newest(source_format: SourceFormat, where: Path, since: float = 0.0) -> Path | None:
    """The most recently written run: `where` itself if it is a run or a file of one, else the newest run below it.

    where: a run, the directory of all runs, or its parent directory. since: Unix time in seconds; runs last written
    before it are ignored. None if there is no run.
    """
    if where.is_file() or _is_run(source_format, where):
        return where if _written(where) >= since - _SAME_SECOND else None
    found: list[tuple[float, str, Path]] = []
    for home in (where, where / _HOME[source_format]):
        runs = [run for pattern in _RUNS for run in home.glob(pattern) if _is_run(source_format, run)]
        found += [(_written(run), run.name, run) for run in runs]
    wanted = [run for run in found if run[0] >= since - _SAME_SECOND]
    return max(wanted)[2] if wanted else None


def _is_run(source_format: SourceFormat, path: Path) -> bool:
    if not path.is_dir() or (path / "runs.swanlab").is_file():  # all runs' directory with its database
        return False
    return any(any(path.glob(pattern)) for pattern in _FILES[source_format])


def _written(run: Path) -> float:
    """Modification time of a run's most recent file, down to its metrics; Unix time in seconds."""
    files = [run] if run.is_file() else [*run.glob("*"), *run.glob("logs/*/*.log"), *run.glob("files/*")]
    times = []
    for path in files:
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)
