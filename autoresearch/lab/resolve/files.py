"""The files that a blueprint's paths refer to."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path


class Files:
    """Read access to the files of this machine."""

    here = True

    def home(self, environ: Mapping[str, str]) -> str:
        """The home directory that `~` stands for; "" if unknown."""
        return environ.get("HOME", "")

    def kind(self, path: Path) -> str:
        """directory, file, other, or "" if nothing is there, or nothing can be (a name of 300 characters)."""
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError):
            return ""
        return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"

    def executable(self, path: Path) -> bool:
        """Whether it may be executed."""
        return os.access(path, os.X_OK)

    def read(self, path: Path, most: int) -> bytes:
        """The first bytes of a file. Raises OSError, also for a FIFO or a terminal, which may never answer."""
        if self.kind(path) == "other":
            raise OSError(errno.EPERM, "it is no plain file", os.fspath(path))
        with path.open("rb") as file:  # where it is a directory, its reader knows the system's words
            return file.read(most)


OURS = Files()
