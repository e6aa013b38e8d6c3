"""Removing what a run left in a directory of ours: whatever its modes, and never through a symbolic link."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
from pathlib import Path

from autoresearch.errors import EnvironmentUnusable


def wipe(path: Path) -> None:
    """Remove a file, a link or a directory and all in it; nothing there is fine.

    What cannot be removed (root's files, written by a container) is set aside beside it, as
    `.<name>.left-<n>`. Raises EnvironmentUnusable where not even that is possible.
    """
    if not os.path.lexists(path):
        return
    try:
        if path.is_dir() and not path.is_symlink():
            with contextlib.suppress(OSError):
                shutil.rmtree(path)
            if path.exists():
                make_writable(path)
                shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as stuck:
        _set_aside(path, stuck)


def make_writable(path: Path) -> None:
    """Give its owner all rights to a directory and those below, links not followed; best effort."""
    pending = [path]
    while pending:
        place = pending.pop()
        with contextlib.suppress(OSError):
            mode = stat.S_IMODE(place.stat(follow_symlinks=False).st_mode)
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                place.chmod(mode | stat.S_IRWXU)  # never a link: those were sorted out below
            with os.scandir(place) as entries:
                pending += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def empty(root: Path, relative: str) -> None:
    """Leave an empty directory at `root/relative`, unless a part of the way there is a link or a file."""
    place = root / relative
    if not stays_inside(root, place.parent):
        return
    if place.is_symlink() or not place.is_dir() or any(place.iterdir()):
        wipe(place)
        place.mkdir()


def wipe_nested(root: Path) -> None:
    """Remove every `.git` below the root's own: `git clean` leaves one that lies where files are tracked."""
    todo = [root]
    while todo:
        place = todo.pop()
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if entry.name.lower() == ".git":
                    if place != root:
                        wipe(Path(entry.path))
                elif entry.is_dir(follow_symlinks=False):
                    todo.append(Path(entry.path))


def stays_inside(root: Path, place: Path) -> bool:
    """Whether a directory is really below `root` (itself without links) where its path says, no link between."""
    return place.is_dir() and os.path.realpath(place) == str(place) and (place == root or root in place.parents)


def _set_aside(path: Path, stuck: OSError) -> None:
    for number in itertools.count(1):
        aside = path.with_name(f".{path.name}.left-{number}")
        if not os.path.lexists(aside):
            break
    try:
        path.rename(aside)
    except OSError:
        raise EnvironmentUnusable(
            f"what a run left cannot be removed: {stuck.filename or path}: {stuck.strerror}",
            hint=f"remove {path} by hand",
            code="slot_stuck",
        ) from stuck
