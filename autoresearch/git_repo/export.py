"""Exports the files of a commit, as a checkout would write them, to a directory outside git's control."""

from __future__ import annotations

import shutil
from pathlib import Path

from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import LIST, Git
from autoresearch.git_repo.worktrees import POINTERS


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
