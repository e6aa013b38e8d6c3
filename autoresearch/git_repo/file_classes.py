"""The files of a checkout, sorted by what a snapshot does with them."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import Git, text

CROWD = 20  # so many left out of one directory for one reason are told as one line
OWN = "results and records"
NESTED = "a git repository of its own"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path (a directory ends in `/`) that the snapshot does not hold as it is on disk, and why."""

    path: str
    reason: str
    size: int = 0  # bytes; 0 where nobody counted

    def __str__(self) -> str:
        counted = f", {self.size / 2**20:.1f} MB" if self.size >= 2**20 else ""
        return f"{self.path} ({self.reason}{counted})"


@dataclass(frozen=True, slots=True)
class Pin:
    """An index entry that is set without looking at the file; mode "0" removes it."""

    mode: str
    oid: str
    path: bytes

    @property
    def line(self) -> bytes:
        """As `git update-index -z --index-info` reads it."""
        return b"%s %s 0\t%s\0" % (self.mode.encode(), self.oid.encode(), self.path)


@dataclass(frozen=True, slots=True)
class Survey:
    """The differences, sorted by what to do about them. Paths in bytes are git's, relative to the root."""

    head: str  # commit; "" where there is none
    take: tuple[bytes, ...]  # to be read from disk
    pins: tuple[Pin, ...]  # to be set or removed in the index
    left_out: tuple[LeftOut, ...]
    dirty: tuple[str, ...]  # where the snapshot will differ from HEAD, sorted


@dataclass(frozen=True, slots=True)
class Exclusions:
    """What the caller wants left out: directories or files relative to the root, and the size limit."""

    paths: tuple[bytes, ...]
    max_bytes: int

    def holds(self, path: bytes) -> bool:
        """Whether `path` is one of the caller's, or inside one."""
        return any(path == own or path.startswith(own + b"/") for own in self.paths)


def own_screen(checkout: Checkout, leave_out: Iterable[Path], max_bytes: int) -> Exclusions:
    """The caller's paths as git names them; those outside the checkout or around it say nothing."""
    root = os.fsencode(checkout.root)
    real = (os.fsencode(os.path.realpath(path)) for path in leave_out)
    return Exclusions(tuple(path[len(root) + 1 :] for path in real if path.startswith(root + b"/")), max_bytes)


@dataclass(slots=True)
class FileClasses:
    """A Survey in the making."""

    git: Git
    own: Exclusions
    head: str = ""
    take: list[bytes] = field(default_factory=list)
    pins: list[Pin] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    settled: list[bytes] = field(default_factory=list)  # differs from HEAD without being read from disk

    def leave(self, path: bytes, reason: str, size: int = 0) -> None:
        """Leave a path out and remember why."""
        self.left_out.append(LeftOut(text(path), reason, size))

    def place(self, path: bytes) -> bytes:
        """Where a path lies on disk."""
        return os.fsencode(self.git.cwd) + b"/" + path

    def survey(self) -> Survey:
        """What was found."""
        dirty = tuple(sorted({text(path) for path in (*self.take, *self.settled)}))
        left_out = _crowds_as_one(self.left_out)
        return Survey(self.head, tuple(self.take), tuple(self.pins), left_out, dirty)

    def size(self, path: bytes) -> int | None:
        """Bytes of a file, link or submodule that git can take; None, and told, for anything else."""
        place = self.place(path)
        try:
            status = os.lstat(place)
        except OSError:
            return 0  # it went away just now; git will see that, too
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFREG and not os.access(place, os.R_OK, effective_ids=True):
            self.leave(path, "cannot be read", status.st_size)
        elif kind not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
            self.leave(path, "neither a file nor a link")
        else:
            return status.st_size
        return None


def _crowds_as_one(left_out: Sequence[LeftOut]) -> tuple[LeftOut, ...]:
    """Told by directory where one reason leaves out more than CROWD files of it."""
    groups = Counter((left.path.rpartition("/")[0], left.reason) for left in left_out)
    told: dict[tuple[str, str], LeftOut] = {}
    for left in left_out:
        group = (left.path.rpartition("/")[0], left.reason)
        if groups[group] <= CROWD or left.path.endswith("/"):
            told[left.path, left.reason] = left
        else:
            size = left.size + (told[group].size if group in told else 0)
            told[group] = LeftOut(f"{group[0] or '.'}/", f"{left.reason} ({groups[group]} files)", size)
    return tuple(told.values())
