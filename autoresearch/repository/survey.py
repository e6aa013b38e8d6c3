"""What differs from HEAD in a checkout, and what of it a snapshot takes or leaves out. Writes nothing.

One `git status` answers nearly everything; `git ls-files -v` runs beside it to find what its user told
git to overlook (assume-unchanged, skip-worktree), because what runs is the file and not the promise.
Format of the answer: git-status(1), "Porcelain Format Version 2", NUL separated.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.repository import screen
from autoresearch.repository.checkout import Checkout
from autoresearch.repository.git import Git, text
from autoresearch.repository.private_index import private_index

MAX_BYTES = 50 * 2**20  # an untracked file above this is data
BUDGET_BYTES = 2**30  # untracked files in all; an unignored data set must not be copied into .git
BLOCK_BYTES = 4096  # what the smallest object takes on a disk
CROWD = 20  # so many left out of one directory for one reason are told as one line

OWN = "results and records"
STATUS = (
    *("status", "--porcelain=v2", "-z", "--branch", "--no-ahead-behind", "--no-renames"),
    *("--untracked-files=normal", "--ignore-submodules=none"),
)
_HIDDEN = re.compile(rb"(?:\A|\0)([a-zS]) ([^\0]*)")
_ABSENT = b"000000"
_VENV_PARTS = frozenset({b"bin", b"include", b"lib", b"lib64", b"share"})


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path (a directory ends in `/`) that the snapshot does not hold as it is on disk, and why."""

    path: str
    reason: str
    size: int = 0  # bytes; 0 where nobody counted


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
class Screen:
    """What the caller wants left out: directories or files relative to the root, and the size limit."""

    paths: tuple[bytes, ...]
    max_bytes: int

    def holds(self, path: bytes) -> bool:
        """Whether `path` is one of the caller's, or inside one."""
        return any(path == own or path.startswith(own + b"/") for own in self.paths)


@dataclass(slots=True)
class _Piles:
    """A Survey in the making."""

    git: Git
    own: Screen
    head: str = ""
    take: list[bytes] = field(default_factory=list)
    pins: list[Pin] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    settled: list[bytes] = field(default_factory=list)  # differs from HEAD without being read from disk

    def leave(self, path: bytes, reason: str, size: int = 0) -> None:
        self.left_out.append(LeftOut(text(path), reason, size))

    def place(self, path: bytes) -> bytes:
        return os.fsencode(self.git.cwd) + b"/" + path

    def survey(self) -> Survey:
        dirty = tuple(sorted({text(path) for path in (*self.take, *self.settled)}))
        left_out = _crowds_as_one(self.left_out)
        return Survey(self.head, tuple(self.take), tuple(self.pins), left_out, dirty)


def survey(checkout: Checkout, *, leave_out: Iterable[Path] = (), max_bytes: int = MAX_BYTES) -> Survey:
    """What a snapshot would take and leave; for `--dry-run`. Raises GitFailed."""
    with private_index(checkout) as git:
        return look(git, own_screen(checkout, leave_out, max_bytes))


def own_screen(checkout: Checkout, leave_out: Iterable[Path], max_bytes: int) -> Screen:
    """The caller's paths as git names them; those outside the checkout or around it say nothing."""
    root = os.fsencode(checkout.root)
    real = (os.fsencode(os.path.realpath(path)) for path in leave_out)
    return Screen(tuple(path[len(root) + 1 :] for path in real if path.startswith(root + b"/")), max_bytes)


def look(git: Git, own: Screen) -> Survey:
    """Ask git (on a private index), then decide path by path. Raises GitFailed."""
    piles = _Piles(git, own)
    untracked: list[bytes] = []
    for record in _status(git).split(b"\0"):
        if record.startswith(b"# branch.oid "):
            oid = record.rpartition(b" ")[2].decode()
            piles.head = "" if oid == "(initial)" else oid
        elif record.startswith((b"1 ", b"u ")):
            _tracked(piles, record)
        elif record.startswith(b"? "):
            untracked.append(record[2:])
    _untracked(piles, list(_expand(piles, untracked)))
    return piles.survey()


def _status(git: Git) -> bytes:
    """The answer of `git status`, with nothing hidden from it."""
    with git.start("ls-files", "-v", "-z") as flags:
        answer = git.run(*STATUS)
        base = os.fsencode(git.cwd) + b"/"
        hidden = [path for _, path in _HIDDEN.findall(flags.stdout()) if os.path.lexists(base + path)]
    if not hidden:
        return answer
    for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
        git.run("update-index", "-z", flag, "--stdin", feed=b"\0".join(hidden))
    return git.run(*STATUS)


def _tracked(piles: _Piles, record: bytes) -> None:
    """One changed entry of the index: take the file, pin HEAD's version, or note that it is gone."""
    kind, change, sub, rest = record.split(b" ", 3)
    if kind == b"1":
        head_mode, _, work_mode, head_oid, _, path = rest.split(b" ", 5)
    else:  # unmerged: stage 2 is what HEAD has
        _, head_mode, _, work_mode, _, head_oid, _, path = rest.split(b" ", 7)
    removal = Pin("0", "0" * len(head_oid), path)
    reason = OWN if piles.own.holds(path) else screen.SECRET if screen.is_secret(text(path)) else ""
    if work_mode == _ABSENT:
        piles.settled.append(path)
        if change[1:] != b".":
            piles.pins.append(removal)
    elif reason and head_mode == _ABSENT:
        piles.pins.append(removal)
        piles.leave(path, reason)
    elif reason:
        piles.pins.append(Pin(head_mode.decode(), head_oid.decode(), path))
        piles.leave(path, reason + "; the commit keeps the version of HEAD")
    else:
        _changed(piles, path, change, sub)


def _changed(piles: _Piles, path: bytes, change: bytes, sub: bytes) -> None:
    """A tracked path that is there and wanted. `sub` is N... or S<new commit><modified><untracked>."""
    if b"M" in sub or b"U" in sub:
        piles.leave(path + b"/", "uncommitted changes in a submodule; the commit holds its HEAD")
    if change[1:] == b"." or (sub.startswith(b"S.") and change.startswith(b".")):
        if change[:1] != b".":
            piles.settled.append(path)  # the index has it already
    elif _size(piles, path) is not None:
        piles.take.append(path)


def _expand(piles: _Piles, untracked: Sequence[bytes]) -> Iterator[bytes]:
    """The files of untracked directories, without looking into those that are left out as a whole."""
    above: dict[bytes, str] = {b"": "named already"}  # directory -> why nothing in it is wanted; "" if it is
    inside: list[str] = []
    for path in untracked:
        directory = path.removesuffix(b"/")
        if directory == path:
            yield path
            continue
        above[directory] = _whole(piles, directory)
        if above[directory]:
            piles.leave(path, above[directory])
        else:
            inside.append(os.fsdecode(path))
    if not inside:
        return
    places = inside if sum(map(len, inside)) < 100_000 else []  # a command line is finite: then ask for all
    listed = piles.git.run("ls-files", "-o", "--exclude-standard", "-z", "--", *places)
    for path in filter(None, listed.split(b"\0")):
        bare = path.removesuffix(b"/")
        if bare not in above and _pruned(piles, bare.rpartition(b"/")[0], above):
            continue
        if bare == path:
            yield path
        else:  # git never looks into another repository
            piles.leave(path, "a git repository of its own")


def _pruned(piles: _Piles, directory: bytes, above: dict[bytes, str]) -> str:
    """Why nothing in `directory` is wanted, told once; "" where it is wanted."""
    if directory not in above:
        above[directory] = _pruned(piles, directory.rpartition(b"/")[0], above)
        if not above[directory] and (reason := _whole(piles, directory)):
            above[directory] = reason
            piles.leave(directory + b"/", reason)
    return above[directory]


def _whole(piles: _Piles, directory: bytes) -> str:
    """Why an untracked directory is left out as a whole; "" where it is not."""
    if piles.own.holds(directory):
        return OWN
    place = piles.place(directory)
    parent, _, name = place.rpartition(b"/")
    marks = [place + b"/pyvenv.cfg", place + b"/conda-meta"]
    if name in _VENV_PARTS:  # made in a directory that holds code, too
        marks.append(parent + b"/pyvenv.cfg")
    return screen.VENV if any(map(os.path.lexists, marks)) else ""


def _untracked(piles: _Piles, paths: Sequence[bytes]) -> None:
    """Untracked files: what is no secret, no data and no weights is code."""
    wanted: list[tuple[int, bytes]] = []
    for path in paths:
        size = _size(piles, path)
        if size is None:
            continue
        if reason := _unwanted(piles.own, path, size):
            piles.leave(path, reason, size)
        else:
            wanted.append((size, path))
    left = BUDGET_BYTES
    for size, path in sorted(wanted):  # the small ones first: they are the code
        left -= max(size, BLOCK_BYTES)
        if left >= 0:
            piles.take.append(path)
        else:
            piles.leave(path, f"untracked files over {BUDGET_BYTES / 2**30:.0f} GB in all", size)


def _unwanted(own: Screen, path: bytes, size: int) -> str:
    name = text(path)
    if own.holds(path):
        return OWN
    if screen.is_secret(name):
        return screen.SECRET
    if screen.is_checkpoint(name):
        return screen.CHECKPOINT
    return f"untracked and larger than {own.max_bytes / 2**20:.0f} MB" if size > own.max_bytes else ""


def _size(piles: _Piles, path: bytes) -> int | None:
    """Bytes of a file, link or submodule that git can take; None, and told, where it is something else."""
    place = piles.place(path)
    try:
        status = os.lstat(place)
    except OSError:
        return 0  # it went away just now; git will see that, too
    if stat.S_ISREG(status.st_mode) and not os.access(place, os.R_OK, effective_ids=True):
        piles.leave(path, "cannot be read", status.st_size)
    elif not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        piles.leave(path, "neither a file nor a link")
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
