"""The files that a blueprint's paths refer to: local ones, or those of a remote host that has its own code."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """Read access to the files of one machine."""

    @property
    def here(self) -> bool:
        """Whether it is the local machine."""

    @property
    def python(self) -> str:
        """The interpreter if neither blueprint nor codebase has one."""

    def home(self, environ: Mapping[str, str]) -> str:
        """The home directory that `~` stands for; "" if unknown."""

    def kind(self, path: Path) -> str:
        """directory, file, other, or "" if nothing is there, or nothing can be (a name of 300 characters)."""

    def executable(self, path: Path) -> bool:
        """Whether it may be executed."""

    def read(self, path: Path, most: int) -> bytes:
        """The first bytes of a file. Raises OSError."""


@dataclass(frozen=True, slots=True)
class OurFiles:
    """Files of the local machine."""

    here: bool = True

    @property
    def python(self) -> str:
        """See `Files`."""
        return sys.executable

    def home(self, environ: Mapping[str, str]) -> str:
        """See `Files`."""
        return environ.get("HOME", "")

    def kind(self, path: Path) -> str:
        """See `Files`."""
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError):
            return ""
        return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"

    def executable(self, path: Path) -> bool:
        """See `Files`."""
        return os.access(path, os.X_OK)

    def read(self, path: Path, most: int) -> bytes:
        """See `Files`."""
        with path.open("rb") as file:
            return file.read(most)


OURS = OurFiles()
