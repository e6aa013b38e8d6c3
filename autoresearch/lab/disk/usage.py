"""How much room files take, counted up to a limit."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

GB = 1_000_000_000
MOST_OF_A_RUN = 50_000  # entries of one result directory that are counted
BLOCK = 512  # stat(2): st_blocks counts these, whatever the file system's own blocks are


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """What was counted: allocated bytes, as `du` counts them, and files and directories."""

    bytes: int = 0
    entries: int = 0
    whole: bool = True  # False: counting ended at its limit, so that there is at least so much
    length: int = 0  # bytes that a copy would have: of sparse files, too
    links: int = 0  # symbolic links below a directory


def disk_usage(paths: Iterable[Path], most: int | None = None) -> DiskUsage:
    """The room of these files and directories with all that is below them; at most `most` entries are looked at.

    Links are not followed; what cannot be read counts nothing. 10,000 entries take some 60 ms.
    """
    size, count, length, links, seen = 0, 0, 0, 0, set[tuple[int, int]]()
    todo = [os.fspath(path) for path in paths]
    for path in list(todo):
        with contextlib.suppress(OSError):
            status = os.lstat(path)
            size += _allocated(status, seen)
            length += status.st_size
            count += 1
    todo = [path for path in todo if os.path.isdir(path) and not os.path.islink(path)]  # noqa: PTH112, PTH114
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                if most is not None and count >= most:
                    return DiskUsage(size, count, False, length, links)
                count += 1
                links += entry.is_symlink()
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    size += _allocated(status, seen)
                    length += status.st_size
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
    return DiskUsage(size, count, True, length, links)


def _allocated(status: os.stat_result, seen: set[tuple[int, int]]) -> int:
    """Its bytes on the disk; 0 for a further name of a file that was counted."""
    if status.st_nlink > 1:
        if (key := (status.st_dev, status.st_ino)) in seen:
            return 0
        seen.add(key)
    return status.st_blocks * BLOCK


def free_bytes(path: Path) -> tuple[Path, int]:
    """The nearest directory of a path that exists, and what this user may still write on its volume. Raises OSError."""
    existing = next(one for one in (path.absolute(), *path.absolute().parents) if one.is_dir())
    return existing, shutil.disk_usage(existing).free


def gb(size: int) -> str:
    """A number of bytes, for people."""
    return f"{size / GB:.1f} GB" if size >= GB / 10 else f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size} bytes"
