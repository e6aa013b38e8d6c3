"""Reads commits: a file, the differences of two, and a fingerprint of the code. Writes nothing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass

from autoresearch.errors import NotFoundError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.commit_object import path_in_tree
from autoresearch.git_repo.git import GitFailed

MAX_DIFF_BYTES = 200_000
_DIFF = ("diff-tree", "-r", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")


@dataclass(frozen=True, slots=True)
class Diffstat:
    """How much differs between two commits; binary files count no lines."""

    files: int = 0
    insertions: int = 0
    deletions: int = 0
    binary: int = 0  # number of binary files among `files`

    def __str__(self) -> str:
        return f"{self.files} file{'' if self.files == 1 else 's'}, +{self.insertions} -{self.deletions}"


def diffstat(checkout: Checkout, a: str, b: str, *, ignoring: Collection[str] = ()) -> Diffstat:
    """How much `b` differs from `a`, without the files and directories in `ignoring`. Raises GitFailed."""
    screen = _Ignored.of(ignoring)
    files = insertions = deletions = binary = 0
    for record in checkout.git.run(*_DIFF, "--numstat", "-z", a, b).split(b"\0"):
        if not record:
            continue
        added, removed, path = record.split(b"\t", 2)  # `-\t-\tpath` is a binary file
        if screen.holds(path):
            continue
        files += 1
        if added == b"-":
            binary += 1
        else:
            insertions, deletions = insertions + int(added), deletions + int(removed)
    return Diffstat(files, insertions, deletions, binary)


def changed_paths(checkout: Checkout, a: str, b: str) -> tuple[str, ...]:
    """The paths that differ between two commits, for `lab.resolve.import_proof`. Raises GitFailed."""
    listed = checkout.git.run(*_DIFF, "--name-only", "-z", a, b)
    return tuple(os.fsdecode(path) for path in listed.split(b"\0") if path)


def diff(checkout: Checkout, a: str, b: str, *, ignoring: Collection[str] = (), max_bytes: int = MAX_DIFF_BYTES) -> str:
    """A unified diff for `git apply`; above `max_bytes` it is cut after a whole line, and a last line says so.

    Never reads more than `max_bytes` (and one more). Raises GitFailed.
    """
    words = (*_DIFF, "-p", "--full-index", "--binary", "--src-prefix=a/", "--dst-prefix=b/", a, b, "--", ".")
    without = [f":(top,exclude,literal){path.rstrip('/')}" for path in ignoring]
    with checkout.git.start(*words, *without) as running:
        assert running.process.stdout is not None
        data = running.process.stdout.read(max_bytes + 1)
        if len(data) <= max_bytes:
            status, _, said = running.finish()
            if status:
                raise GitFailed(("git", *words), status, said)
            return data.decode("utf-8", "backslashreplace")
    shown = data[:max_bytes].rpartition(b"\n")[0]
    return shown.decode("utf-8", "backslashreplace") + f"\n... cut after {len(shown)} bytes\n"


def read_file(checkout: Checkout, commit: str, path: str) -> bytes:
    """A file's content in a commit. Raises NotFoundError if there is none, UsageError for an impossible path."""
    name = os.fsdecode(path_in_tree(path))
    try:
        return checkout.git.run("cat-file", "blob", f"{commit}:{name}")
    except GitFailed as failure:
        if failure.returncode in (126, 127):
            raise
        raise NotFoundError(f"commit {commit[:12]} holds no file {path}", code="no_such_file") from failure


def code_fingerprint(checkout: Checkout, commit: str, ignoring: Collection[str] = ()) -> str:
    """A SHA-256 that is equal for two commits if and only if their files (names, modes, content) are, apart from
    the files and directories in `ignoring`. Raises GitFailed."""
    screen = _Ignored.of(ignoring)
    digest = hashlib.sha256()
    for record in checkout.git.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
        if record and not screen.holds(record.partition(b"\t")[2]):
            digest.update(record + b"\0")
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Ignored:
    """Files to ignore, and directories with all their contents."""

    paths: frozenset[bytes]
    beginnings: tuple[bytes, ...]

    @classmethod
    def of(cls, paths: Collection[str]) -> _Ignored:
        names = [path_in_tree(path.rstrip("/")) for path in paths]
        return cls(frozenset(names), tuple(name + b"/" for name in names))

    def holds(self, path: bytes) -> bool:
        return path in self.paths or path.startswith(self.beginnings)
