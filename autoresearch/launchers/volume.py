"""The machine's big volume: the target of caches, so that models do not fill the disk of the home directory.

Instances of Brev have a small root disk and the rest of their space at /ephemeral. Only default locations are moved: a
variable that is set stays, and so does a cache that is already somewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.errors import UsageError
from autoresearch.launchers import host_sandbox_check
from autoresearch.runner.remote_files import BIG_VOLUME, CACHES, caches

USUAL = Path(BIG_VOLUME)
AUTO, NONE = "auto", "none"


@dataclass(frozen=True, slots=True)
class Volume:
    """A big volume, and the variables that point to it. `path` is "" if there is none; `why` says why."""

    path: str = ""
    why: str = ""
    free_bytes: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """For people."""
        if not self.path:
            return f"none: {self.why}"
        names = ", ".join(name for name in self.variables if name in CACHES) or "no cache, all are elsewhere already"
        return f"{self.path}, {self.free_bytes / 1e9:.0f} GB free; for {names}"


def find(setting: str, environ: Mapping[str, str], usual: Path = USUAL) -> Volume:
    """The volume for a setting: `auto`, `none` or a directory. Raises UsageError for one missing or read-only.

    auto: the usual one, if it can be written and is larger than the disk of the home directory.
    """
    home = Path(environ.get("HOME") or Path.home())
    word = setting.strip() or AUTO
    if word == NONE:
        return Volume(why="the setting big_volume says so")
    path = usual if word == AUTO else Path(word).expanduser()
    if word != AUTO and not (path.is_absolute() and path.is_dir() and host_sandbox_check.can_write(path)):
        message = f"big_volume: {word} is no directory that can be written"
        raise UsageError(message, hint="auto, none, or the path of a directory", code="bad_big_volume")
    if word == AUTO and (why := _unfit(path, home)):
        return Volume(why=why)
    room = os.statvfs(path)
    variables = caches(f"{path}/autoresearch-{os.getuid()}", str(home), environ)
    return Volume(str(path), free_bytes=room.f_bavail * room.f_frsize, variables=variables)


def _unfit(path: Path, home: Path) -> str:
    """Why the usual volume is not used; "" if it is."""
    if not path.is_dir():
        return f"there is no {path}"
    if not host_sandbox_check.can_write(path):
        return f"{path} cannot be written"
    try:
        own, theirs = os.statvfs(path), os.statvfs(next(p for p in (home, *home.parents) if p.is_dir()))
    except OSError as error:
        return f"{path}: {error.strerror}"
    larger = own.f_blocks * own.f_frsize > theirs.f_blocks * theirs.f_frsize
    return "" if larger else f"{path} is no larger than the disk of {home}"
