"""What differs between two commits, a fingerprint of the code, all files. The repository stays as it is.

Paths that a caller ignores are files, or directories with all their contents.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection
from dataclasses import dataclass

from autoresearch.core.agents.protection import Protection
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import Git, path_in_tree
from autoresearch.git_repo.history import look
from autoresearch.git_repo.trees import entries_of

MAX_DIFF_BYTES = 200_000
LINK, SUBMODULE, NOTHING = "120000", "160000", "000000"
_DIFF = ("-r", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")


@dataclass(frozen=True, slots=True)
class Diffstat:
    """How much differs between two commits; binary files count no lines."""

    files: int
    insertions: int
    deletions: int

    def __str__(self) -> str:
        return f"{self.files} file{'' if self.files == 1 else 's'}, +{self.insertions} -{self.deletions}"


@dataclass(frozen=True, slots=True)
class Difference:
    """One path that differs: its mode and blob id before and after; mode NOTHING if it does not exist."""

    path: str
    mode_before: str
    mode: str
    blob_before: str
    blob: str

    @property
    def gone(self) -> bool:
        """Whether the path was removed."""
        return self.mode == NOTHING


def diffstat(checkout: Checkout, a: str, b: str, *, ignoring: Collection[str] = ()) -> Diffstat:
    """How much `b` differs from `a`, without the paths in `ignoring`. Raises GitFailed."""
    said = look(checkout.root, "diff_tree", *_DIFF, "--shortstat", a, b, *_without(ignoring)).decode()
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (file|insertion|deletion)", said)}
    return Diffstat(*(counts.get(word, 0) for word in ("file", "insertion", "deletion")))


def changed_paths(checkout: Checkout, a: str, b: str) -> tuple[str, ...]:
    """The paths that differ between two commits. Raises GitFailed."""
    return tuple(sorted(one.path for one in differences(checkout.git, a, b)))


def differences(git: Git, before: str, after: str, *, objects: dict[str, str] | None = None) -> tuple[Difference, ...]:
    """Every path that differs between two commits or trees; `objects`: variables that tell git where objects are."""
    command = ("diff-tree", *_DIFF, "-z", "--raw", "--no-abbrev", "--ignore-submodules=none", before, after)
    return read_raw(git.run(*command, extra=objects))


def read_raw(listed: bytes) -> tuple[Difference, ...]:
    """What git lists with `--raw -z`."""
    fields = listed.split(b"\0")
    found = []
    for head, path in zip(fields[0:-1:2], fields[1::2], strict=False):
        mode_before, mode, blob_before, blob, _ = head.decode().removeprefix(":").split(" ")
        found.append(Difference(os.fsdecode(path), mode_before, mode, blob_before, blob))
    return tuple(found)


def intact(
    checkout: Checkout, base: str, commit: str, protection: Protection, *, ours: Collection[str] = ()
) -> tuple[str, ...]:
    """The protected files that differ between `base` and `commit`, e.g. `tests/test_a.py (a test)`; () if none do.

    `ours`: paths that the harness itself writes into the commit (`.autoresearch`, the recipe). Raises GitFailed.
    """
    own = [os.fsencode(path.rstrip("/")) for path in ours]
    changed = (one.path for one in differences(checkout.git, base, commit))
    return protection.touched(path for path in changed if not below(os.fsencode(path), own))


def diff(checkout: Checkout, a: str, b: str, *, ignoring: Collection[str] = (), max_bytes: int = MAX_DIFF_BYTES) -> str:
    """A unified diff for `git apply`; above `max_bytes` it is cut after a whole line, and a last line says so.

    Raises GitFailed.
    """
    words = (*_DIFF, "-p", "--full-index", "--binary", "--src-prefix=a/", "--dst-prefix=b/", a, b)
    data = look(checkout.root, "diff_tree", *words, *_without(ignoring))
    if len(data) <= max_bytes:
        return data.decode("utf-8", "backslashreplace")
    shown = data[:max_bytes].rpartition(b"\n")[0]
    return shown.decode("utf-8", "backslashreplace") + f"\n... cut after {len(shown)} bytes\n"


def _without(paths: Collection[str]) -> list[str]:
    return ["--", ".", *(f":(top,exclude,literal){path.rstrip('/')}" for path in paths)]


def code_fingerprint(checkout: Checkout, commit: str, ignoring: Collection[str] = ()) -> str:
    """A SHA-256 that is equal for two commits if and only if their files (names, modes, content) are, apart from
    the paths in `ignoring`. Raises GitFailed."""
    skipped = [path_in_tree(path.rstrip("/")) for path in ignoring]
    digest = hashlib.sha256()
    for path, head in entries_of(checkout, commit).items():
        if not below(path, skipped):
            digest.update(head + b"\t" + path + b"\0")
    return digest.hexdigest()


def below(path: bytes, roots: Collection[bytes]) -> bool:
    """Whether a path is one of these files or directories, or in one of them."""
    return any(path == root or path.startswith(root + b"/") for root in roots)
