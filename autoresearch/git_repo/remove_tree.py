"""Removes what a run left in autoresearch's directories, whatever the file modes, never following symbolic links."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import stat
import subprocess
from pathlib import Path

from autoresearch.errors import EnvironmentUnusable


def wipe(path: Path) -> None:
    """Remove a file, a link or a directory with its contents; does nothing if the path does not exist.

    What cannot be removed (e.g. root's files, written by a container) is renamed to `.<name>.left-<n>` beside it.
    Raises EnvironmentUnusable if that is not possible either.
    """
    try:
        discard(path)
    except OSError as stuck:
        _set_aside(path, stuck)


def discard(path: Path) -> None:
    """The same, but what cannot be removed stays where it is. Raises OSError."""
    if not os.path.lexists(path):
        return
    if path.is_dir() and not path.is_symlink():
        with contextlib.suppress(OSError, RecursionError):
            shutil.rmtree(path)
        if path.exists():
            make_writable(path)
            removed = subprocess.run(["rm", "-rf", "--", path], capture_output=True, text=True)  # of any depth
            if removed.returncode:
                raise OSError(errno.EPERM, removed.stderr.strip().partition("\n")[0], str(path))
    else:
        path.unlink()


def remove_pipes(directory: Path) -> None:
    """Remove named pipes that git would read as its rules, and wait for a writer until its time is over."""
    for above, _, names in os.walk(directory):
        for path in (Path(above, name) for name in names if name in (".gitignore", ".gitattributes")):
            if stat.S_ISFIFO(path.lstat().st_mode):
                path.unlink()


def make_writable(path: Path) -> None:
    """Give the owner all permissions on a directory and its subdirectories, links not followed; best effort."""
    pending = [path]
    while pending:
        place = pending.pop()
        with contextlib.suppress(OSError):
            mode = stat.S_IMODE(place.stat(follow_symlinks=False).st_mode)
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                place.chmod(mode | stat.S_IRWXU)  # never a link: links are excluded below
            with os.scandir(place) as entries:
                pending += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def empty(root: Path, relative: str) -> None:
    """Make `root/relative` an empty directory, unless one of its parents is a link or a file."""
    place = root / relative
    if not stays_inside(root, place.parent):
        return
    if place.is_symlink() or not place.is_dir() or any(place.iterdir()):
        wipe(place)
        place.mkdir()


def wipe_nested(root: Path) -> None:
    """Remove every `.git` below the root except its own: `git clean` keeps those in directories with tracked files."""
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


def stays_inside(root: Path, path: Path) -> bool:
    """Whether `path` is a directory at or below `root` (a path without links), with no symbolic link in its path."""
    return path.is_dir() and os.path.realpath(path) == str(path) and (path == root or root in path.parents)


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
