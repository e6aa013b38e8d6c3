"""What differs from HEAD in a checkout, and which of it a snapshot takes or leaves out. Writes nothing.

One `git status` reports nearly everything. `git ls-files -v` runs in parallel, to find files that the user told git
to overlook (assume-unchanged, skip-worktree), because runs use the files on disk all the same.
Output format: git-status(1), "Porcelain Format Version 2", NUL separated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.run.spec import SUBMODULE_EDITS
from autoresearch.git_repo import file_screen
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.file_classes import NESTED, OWN, Exclusions, FileClasses, Pin, Survey, own_screen
from autoresearch.git_repo.git import LIST, Git, text
from autoresearch.git_repo.private_index import private_index
from autoresearch.git_repo.untracked import expand, sort_untracked

MAX_BYTES = 50 * 2**20  # a larger untracked file is taken for data

STATUS = (
    *("status", "--porcelain=v2", "-z", "--branch", "--no-ahead-behind", "--no-renames"),
    *("--untracked-files=normal", "--ignore-submodules=none"),
)
_HIDDEN = re.compile(rb"\0[a-zS] ([^\0]*)")  # of `ls-files -v`; H is an ordinary entry
_ABSENT, _GITLINK = b"000000", b"160000"


@dataclass(frozen=True, slots=True)
class _ChangedFile:
    """One changed entry; `change` is XY (HEAD to index, index to disk), `sub` is N... or S<commit><M><U>."""

    change: bytes
    sub: bytes
    head_mode: bytes
    index_mode: bytes
    work_mode: bytes
    head_oid: bytes
    path: bytes

    @classmethod
    def parse(cls, record: bytes) -> _ChangedFile:
        """Parse `1 XY sub mH mI mW hH hI path`, or unmerged `u XY sub m1 m2 m3 mW h1 h2 h3 path`, where 2 is HEAD."""
        if record.startswith(b"1 "):
            _, change, sub, head, index, work, oid, _, path = record.split(b" ", 8)
            return cls(change, sub, head, index, work, oid, path)
        _, change, sub, _, head, _, work, _, oid, _, path = record.split(b" ", 10)
        return cls(change, sub, head, head, work, oid, path)

    @property
    def on_disk(self) -> bool:
        """Whether the file on disk differs from the index; otherwise the index already holds the change."""
        return not self.change.endswith(b".")


def survey(checkout: Checkout, *, leave_out: Iterable[Path] = (), max_bytes: int = MAX_BYTES) -> Survey:
    """What a snapshot would take and leave out; for `--dry-run`. Raises GitFailed."""
    with private_index(checkout) as git:
        return look(git, own_screen(checkout, leave_out, max_bytes))


def look(git: Git, own: Exclusions) -> Survey:
    """Run `git status` (on a private index), then classify path by path. Raises GitFailed."""
    piles = FileClasses(git, own)
    untracked: list[bytes] = []
    for record in _status(git).split(b"\0"):
        if record.startswith(b"# branch.oid "):
            oid = record.rpartition(b" ")[2].decode()
            piles.head = "" if oid == "(initial)" else oid
        elif record.startswith((b"1 ", b"u ")):
            entry = _ChangedFile.parse(record)
            _tracked(piles, entry)
            if entry.work_mode == _ABSENT and entry.on_disk and _is_directory(piles.absolute(entry.path)):
                untracked.append(entry.path + b"/")  # git status does not report a directory that replaced a file
        elif record.startswith(b"? "):
            untracked.append(record[2:])
    sort_untracked(piles, list(expand(piles, untracked)))
    return piles.survey()


def _status(git: Git) -> bytes:
    """Output of `git status`, including files that git was told to overlook."""
    with git.start(*LIST, "-v") as flags:
        answer = git.run(*STATUS)
        hidden = _hidden(flags.stdout(), os.fsencode(git.cwd) + b"/")
    if not hidden:
        return answer
    for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
        git.run("update-index", "-z", flag, "--stdin", feed=b"\0".join(hidden))
    return git.run(*STATUS)


def _hidden(listed: bytes, base: bytes) -> list[bytes]:
    """Paths in the output of `ls-files -v -z` that git was told to overlook and that are on disk."""
    listed = b"\0" + listed
    if listed.count(b"\0H ") == listed.count(b"\0") - 1:  # ten times faster than the regex
        return []
    return [path for path in _HIDDEN.findall(listed) if os.path.lexists(base + path)]


def _is_directory(path: bytes) -> bool:
    return os.path.realpath(path) == path and Path(os.fsdecode(path)).is_dir()


def _tracked(piles: FileClasses, changed_file: _ChangedFile) -> None:
    """Classify a changed entry of the index: take the file, pin HEAD's version, or note that it was removed."""
    path = changed_file.path
    removal = Pin("0", "0" * len(changed_file.head_oid), path)
    reason = OWN if piles.own.holds(path) else file_screen.SECRET if file_screen.is_secret(text(path)) else ""
    if changed_file.work_mode == _ABSENT:
        piles.settled.append(path)
        if changed_file.on_disk:
            piles.pins.append(removal)
    elif reason and changed_file.head_mode == _ABSENT:
        piles.pins.append(removal)
        piles.leave(path, reason)
    elif reason:
        piles.pins.append(Pin(changed_file.head_mode.decode(), changed_file.head_oid.decode(), path))
        piles.leave(path, reason + "; the commit keeps the version of HEAD")
    else:
        _classify(piles, changed_file)


def _classify(piles: FileClasses, changed_file: _ChangedFile) -> None:
    """Classify a tracked path that exists and may be taken."""
    path = changed_file.path
    if changed_file.work_mode == _GITLINK != changed_file.index_mode:  # a repository replaced a file
        piles.leave(path + b"/", NESTED)
    elif b"M" in changed_file.sub or b"U" in changed_file.sub:
        piles.leave(path + b"/", SUBMODULE_EDITS)
        if changed_file.change == b".M" and b"C" not in changed_file.sub:
            return
    if not changed_file.on_disk:
        piles.settled.append(path)
    elif piles.size(path) is not None:
        piles.take.append(path)
