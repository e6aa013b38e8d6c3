"""What `autoresearch doctor` checks: the machine, the shell and the sandbox that a run would start in.

Facts are for printing, findings are the problems among them. Every check answers within seconds and leaves nothing
behind.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.errors import UsageError
from autoresearch.launchers import gpus, host_sandbox_check, program
from autoresearch.runner.remote_files import BIG_VOLUME, CACHES, caches

if TYPE_CHECKING:
    from autoresearch.launchers.tmux import TmuxLauncher

# The machine's big volume: the target of caches, so that models do not fill the disk of the home directory.
#
# Instances of Brev have a small root disk and the rest of their space at /ephemeral. Only default locations are moved:
# a variable that is set stays, and so does a cache that is already somewhere.

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


OLDEST_PYTHON = (3, 11)
LOW_DISK_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Disk:
    """Where something would be written. `existing` is the nearest existing directory."""

    directory: Path
    existing: Path
    free_bytes: int
    writable: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The facts. A version is "" if the program is missing."""

    system: str  # "Linux 6.8.0-45-generic x86_64"
    python: str
    interpreter: str
    tmux: str
    git: str
    gpus: tuple[gpus.Gpu, ...]
    taken: frozenset[str]  # UUIDs
    disks: tuple[Disk, ...]
    sandbox: host_sandbox_check.HostSandbox
    git_directory_writable: bool | None  # None: no repository was given
    driven_by: str


def look(
    directories: Sequence[Path] = (),
    *,
    git_directory: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Surroundings:
    """Gather the facts; `directories` are those that a run would write to, `git_directory` is `.git`."""
    import platform  # takes milliseconds to import

    found = gpus.find()
    return Surroundings(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        interpreter=sys.executable,
        tmux=program.version("tmux", "-V"),
        git=program.version("git", "--version"),
        gpus=found,
        taken=gpus.taken(found, environ),
        disks=tuple(disk(directory) for directory in directories),
        sandbox=host_sandbox_check.look(environ),
        git_directory_writable=host_sandbox_check.can_write(git_directory) if git_directory else None,
        driven_by=host_sandbox_check.driven_by(environ),
    )


def findings(around: Surroundings, tmux: TmuxLauncher | None = None) -> list[Finding]:
    """Problems that would stop a run or surprise a person, including the launcher's own preflight."""
    from autoresearch.launchers.tmux import TmuxLauncher

    found = (tmux or TmuxLauncher()).preflight()
    if program.is_older(around.python, OLDEST_PYTHON):
        message = f"Python {around.python} is too old; 3.11 is the oldest that will do"
        found.append(Finding(Severity.ERROR, "old_python", message, where=around.interpreter))
    if not around.git:
        hint = "runs go on without branches; install git to have them"
        found.append(Finding(Severity.WARNING, "no_git", "git is not installed, or does not run", hint))
    if around.git_directory_writable is False:
        found.append(host_sandbox_check.git_is_read_only())
    return found + [finding for place in around.disks for finding in disk_findings(place)]


def disk(directory: Path) -> Disk:
    """Free space and write access of `directory`, which need not exist. Creates nothing."""
    place = next(p for p in (directory.absolute(), *directory.absolute().parents) if p.is_dir())
    try:
        numbers = os.statvfs(place)
    except OSError:
        return Disk(directory, place, 0, writable=False)
    free = numbers.f_bavail * numbers.f_frsize
    out_of_inodes = numbers.f_files > 0 and numbers.f_favail == 0  # 0 of 0: btrfs and others do not count them
    return Disk(directory, place, 0 if out_of_inodes else free, host_sandbox_check.can_write(place))


def disk_findings(disk: Disk) -> list[Finding]:
    """An error if it cannot be written, a warning below 1 GiB."""
    where = str(disk.directory)
    if not disk.writable:
        message = f"{disk.existing} cannot be written"
        return [Finding(Severity.ERROR, "not_writable", message, "choose another result directory", where)]
    if disk.free_bytes < LOW_DISK_BYTES:
        message = f"only {disk.free_bytes / (1 << 20):.0f} MiB are free on the disk of {disk.existing}"
        return [Finding(Severity.WARNING, "low_disk", message, "make room before a long run", where)]
    return []
