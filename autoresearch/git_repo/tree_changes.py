"""Differences of two trees, by mode and content, and which of them affect protected files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.agents.protection import Protection
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.fresh_files import POINTERS
from autoresearch.git_repo.git import LIST, Git

LINK, SUBMODULE, NOTHING = "120000", "160000", "000000"
_RAW = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--ignore-submodules=none")


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


def differences(git: Git, before: str, after: str, *, objects: dict[str, str] | None = None) -> tuple[Difference, ...]:
    """Every path that differs between two commits or trees; `objects`: variables that tell git where objects are."""
    fields = git.run(*_RAW, before, after, extra=objects).split(b"\0")
    found = []
    for head, path in zip(fields[0:-1:2], fields[1::2], strict=False):
        mode_before, mode, blob_before, blob, _ = head.decode().removeprefix(":").split(" ")
        found.append(Difference(os.fsdecode(path), mode_before, mode, blob_before, blob))
    return tuple(found)


def intact(
    checkout: Checkout, base: str, commit: str, protection: Protection, *, ours: Collection[str] = ()
) -> tuple[str, ...]:
    """The protected files that differ between `base` and `commit`, e.g. `tests/test_a.py (a test)`; () if none do.

    `ours`: files and directories that the harness itself writes into the commit (`.autoresearch`, the recipe). Raises
    GitFailed.
    """
    own = {path.rstrip("/") for path in ours}
    changed = (one.path for one in differences(checkout.git, base, commit))
    return protection.touched(
        path for path in changed if path not in own and not any(path.startswith(f"{place}/") for place in own)
    )


def export(checkout: Checkout, commit: str, path: Path) -> None:
    """Write every file of a commit below `path`, which must not exist; the checkout and its index stay untouched.

    Raises GitFailed, OSError.
    """
    path.mkdir(parents=True)
    index = path.with_name(path.name + ".index")
    try:
        git = Git(checkout.root, index)
        git.run("read-tree", commit)
        filters = () if shutil.which("git-lfs") else POINTERS
        git.run(*filters, "checkout-index", "--all", "--force", f"--prefix={path}/")
    finally:
        index.unlink(missing_ok=True)


def files_of(checkout: Checkout, directory: Path) -> list[bytes]:
    """Tracked and untracked, but not ignored files below a directory, relative to the root of the checkout; sorted."""
    listed = checkout.git.run(*LIST, "--cached", "--others", "--exclude-standard", "--", str(directory))
    return sorted({name for name in listed.split(b"\0") if name})
