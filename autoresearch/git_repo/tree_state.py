"""What of a working tree is not what it seems: unresolved merges, edits in submodules, pointers of Git LFS."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import LFS_FILES, GitFailed
from autoresearch.records.hostile import read_readable

_STATUS = ("status", "--porcelain=v2", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=none")
_POINTER = b"version https://git-lfs.github.com/spec/"
_LONGEST = 1024  # bytes of a pointer


@dataclass(frozen=True, slots=True)
class TreeState:
    """Paths from the root of the working tree."""

    conflicts: tuple[str, ...] = ()
    edited_submodules: tuple[str, ...] = ()
    lfs_pointers: tuple[str, ...] = ()


def look(checkout: Checkout) -> TreeState:
    """The state of a working tree; nothing is found where git cannot say it."""
    try:
        status = checkout.git.run(*_STATUS).split(b"\0")
        stored = checkout.git.run("ls-files", "-z", "--", LFS_FILES).split(b"\0")
    except GitFailed:
        return TreeState()
    changed = [record.split(b" ", 8) for record in status if record.startswith(b"1 ")]
    edited = [one[8] for one in changed if one[2][:1] == b"S" and {*b"MU"} & {*one[2]}]
    conflicts = [record.split(b" ", 10)[10] for record in status if record.startswith(b"u ")]
    pointers = [path for path in filter(None, stored) if is_pointer(checkout.root / os.fsdecode(path))]
    return TreeState(*(tuple(map(os.fsdecode, paths)) for paths in (conflicts, edited, pointers)))


def is_pointer(path: Path) -> bool:
    """Whether a file is a pointer of Git LFS, whose content is elsewhere."""
    try:
        return read_readable(path, _LONGEST).startswith(_POINTER)
    except OSError:
        return False
