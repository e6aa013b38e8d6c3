"""The files of a checkout, classified by what a snapshot does with them."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import Git, text

CROWD = 20  # more files left out of one directory for the same reason are reported as one entry
OWN = "results and records"
NESTED = "a git repository of its own"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path (a directory's ends in `/`) that the snapshot does not contain as it is on disk, and why."""

    path: str
    reason: str
    size: int = 0  # bytes; 0 if unknown

    def __str__(self) -> str:
        counted = f", {self.size / 2**20:.1f} MB" if self.size >= 2**20 else ""
        return f"{self.path} ({self.reason}{counted})"


@dataclass(frozen=True, slots=True)
class Pin:
    """An index entry to set without reading the file; mode "0" removes the entry."""

    mode: str
    oid: str
    path: bytes

    @property
    def line(self) -> bytes:
        """The entry in the input format of `git update-index -z --index-info`."""
        return b"%s %s 0\t%s\0" % (self.mode.encode(), self.oid.encode(), self.path)


@dataclass(frozen=True, slots=True)
class Survey:
    """The differences from HEAD, classified by what to do. Paths in bytes are git's, relative to the root."""

    head: str  # commit; "" if there is none
    take: tuple[bytes, ...]  # to be read from disk
    pins: tuple[Pin, ...]  # to be set or removed in the index
    left_out: tuple[LeftOut, ...]
    dirty: tuple[str, ...]  # paths in which the snapshot will differ from HEAD, sorted


@dataclass(frozen=True, slots=True)
class Exclusions:
    """What the caller excludes: directories or files, relative to the root, and larger untracked files."""

    paths: tuple[bytes, ...]
    max_bytes: int

    def holds(self, path: bytes) -> bool:
        """Whether `path` is one of the excluded paths, or inside one."""
        return any(path == own or path.startswith(own + b"/") for own in self.paths)


def own_screen(checkout: Checkout, leave_out: Iterable[Path], max_bytes: int) -> Exclusions:
    """The caller's exclusions as git paths; paths outside the checkout, or containing it, are ignored."""
    root = os.fsencode(checkout.root)
    real = (os.fsencode(os.path.realpath(path)) for path in leave_out)
    return Exclusions(tuple(path[len(root) + 1 :] for path in real if path.startswith(root + b"/")), max_bytes)


@dataclass(slots=True)
class FileClasses:
    """Collects the parts of a Survey."""

    git: Git
    own: Exclusions
    head: str = ""
    take: list[bytes] = field(default_factory=list)
    pins: list[Pin] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    settled: list[bytes] = field(default_factory=list)  # differs from HEAD without being read from disk

    def leave(self, path: bytes, reason: str, size: int = 0) -> None:
        """Leave a path out and record the reason."""
        self.left_out.append(LeftOut(text(path), reason, size))

    def absolute(self, path: bytes) -> bytes:
        """The absolute path on disk."""
        return os.fsencode(self.git.cwd) + b"/" + path

    def survey(self) -> Survey:
        """The finished Survey."""
        dirty = tuple(sorted({text(path) for path in (*self.take, *self.settled)}))
        left_out = _crowds_as_one(self.left_out)
        return Survey(self.head, tuple(self.take), tuple(self.pins), left_out, dirty)

    def size(self, path: bytes) -> int | None:
        """Bytes of a file, link or submodule that git can store; None for anything else, which is left out."""
        place = self.absolute(path)
        try:
            status = os.lstat(place)
        except OSError:
            return 0  # it was removed just now; git will notice that, too
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFREG and not os.access(place, os.R_OK, effective_ids=True):
            self.leave(path, "cannot be read", status.st_size)
        elif kind not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
            self.leave(path, "neither a file nor a link")
        else:
            return status.st_size
        return None


def _crowds_as_one(left_out: Sequence[LeftOut]) -> tuple[LeftOut, ...]:
    """Merge the entries of a directory into one where a reason leaves out more than CROWD of its files."""
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
