"""Where W&B and SwanLab keep the runs of a program: one directory each, below `wandb/` or `swanlog/`."""

from __future__ import annotations

from pathlib import Path

from autoresearch.core.run.trainer import SourceFormat

_HOME = {SourceFormat.WANDB: "wandb", SourceFormat.SWANLAB: "swanlog"}
_FILES = {  # of which a run has one at least
    SourceFormat.WANDB: ("*.wandb", "files/wandb-history.jsonl", "files/wandb-summary.json"),
    SourceFormat.SWANLAB: ("*.swanlab", "logs/*/*.log"),
}
_RUNS = ("run-*", "offline-run-*")
_SAME_SECOND = 1.0  # some file systems round a time down


def newest(kind: SourceFormat, where: Path, since: float = 0.0) -> Path | None:
    """The run that was written last: `where` itself, if it is one or a file of one, else the newest below it.

    where: a run, the directory of all runs, or the directory that holds that one. since: wall clock; what was
    written last before it belongs to somebody else. None where there is none.
    """
    if where.is_file() or _is_run(kind, where):
        return where if _written(where) >= since - _SAME_SECOND else None
    found: list[tuple[float, str, Path]] = []
    for home in (where, where / _HOME[kind]):
        runs = [run for pattern in _RUNS for run in home.glob(pattern) if _is_run(kind, run)]
        found += [(_written(run), run.name, run) for run in runs]
    wanted = [run for run in found if run[0] >= since - _SAME_SECOND]
    return max(wanted)[2] if wanted else None


def _is_run(kind: SourceFormat, path: Path) -> bool:
    if not path.is_dir() or (path / "runs.swanlab").is_file():  # that is the board of all runs
        return False
    return any(any(path.glob(pattern)) for pattern in _FILES[kind])


def _written(run: Path) -> float:
    """When anything in a run was written last, as far down as its metrics lie."""
    files = [run] if run.is_file() else [*run.glob("*"), *run.glob("logs/*/*.log"), *run.glob("files/*")]
    times = []
    for path in files:
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)
