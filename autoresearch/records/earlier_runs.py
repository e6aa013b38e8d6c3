"""Moves records of an earlier run aside, to `earlier/<its run id>/`: they are never deleted or overwritten."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from autoresearch.core.text.session_and_branch_names import RUN_ID
from autoresearch.records.appending import sync_directory
from autoresearch.records.hostile import lies_in

DIRECTORY = "earlier"
MOVING = ".moving"  # filled first and renamed at the end, so that an interrupted move is continued


def unfinished(result_dir: Path) -> Path:
    """The directory that holds the files of an interrupted move, if any."""
    return result_dir / DIRECTORY / MOVING


def move(result_dir: Path, files: Iterable[Path], run: str = "") -> list[Path]:
    """Move those of `files` that exist into one new directory; returns their new paths. Raises OSError.

    Files inside the result directory keep their relative path; one that a link leads out of it to is left alone. Called
    again after an interruption, it continues.
    """
    present = [f for f in files if os.path.lexists(f) and lies_in(f.parent, result_dir)]
    moving = unfinished(result_dir)
    if moving.is_dir() and any(os.path.lexists(moving / _inside(result_dir, f)) for f in present):
        _name(result_dir, moving, "")  # a second set of the same names: finish the first one
    if not present and not moving.is_dir():
        return []
    moving.mkdir(parents=True, exist_ok=True)
    for file in present:
        target = moving / _inside(result_dir, file)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.rename(target)
    final = _name(result_dir, moving, run)
    sync_directory(result_dir)
    return sorted(p for p in final.rglob("*") if not p.is_dir())


def _inside(result_dir: Path, file: Path) -> Path:
    return file.relative_to(result_dir) if result_dir in file.parents else Path(file.name)


def _name(result_dir: Path, moving: Path, run: str) -> Path:
    """Rename the filled directory to the run's id or the next free number; returns the new path."""
    base, n = (f"{run}-" if RUN_ID.match(run) else ""), 1
    final = result_dir / DIRECTORY / (base.rstrip("-") or "1")
    while os.path.lexists(final):
        n += 1
        final = result_dir / DIRECTORY / f"{base}{n}"
    moving.rename(final)
    return final
