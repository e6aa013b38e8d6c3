"""The files that a command and its scripts name: on this machine, or as a commit holds them."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def kind_of(path: Path) -> str:
    """directory, file, other, or "" if nothing is there, or nothing can be (a name of 300 characters)."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return ""
    return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def read_start(path: Path, most: int) -> bytes:
    """The first bytes of a file. Raises OSError, also for a FIFO or a terminal, which may never answer."""
    if kind_of(path) == "other":
        raise OSError(errno.EPERM, "it is no plain file", os.fspath(path))
    with path.open("rb") as file:  # where it is a directory, its reader knows the system's words
        return file.read(most)


class Files:
    """Read access to the files of this machine."""

    def kind(self, path: Path) -> str:
        """See `kind_of`."""
        return kind_of(path)

    def read(self, path: Path, most: int) -> bytes:
        """See `read_start`."""
        return read_start(path, most)


OURS = Files()
