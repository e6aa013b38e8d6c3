"""Applies a patch in a clean worktree: the files of its base commit and the patch, nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from autoresearch.git_repo.git import Git, GitFailed
from autoresearch.git_repo.hypothesis_commit import STRICT, PatchError
from autoresearch.git_repo.remove_tree import wipe_nested
from autoresearch.git_repo.worktrees import EXACT, Slot


def patched(slot: Slot, base: str, patch: bytes, includes: Iterable[str] = ()) -> str:
    """Make the slot hold the files of `base` changed by the patch; returns the id of their tree.

    Raises PatchError if it does not apply exactly (no 3-way merge), and the errors of `Slot.switch`.
    """
    slot.switch(base, includes)
    wipe_nested(slot.path)
    git = Git(slot.path)
    try:
        git.run(*EXACT, *STRICT, "apply", "--index", "--binary", "-p1", "-", feed=patch)
    except GitFailed as failure:
        raise PatchError(1, base, failure.stderr) from failure
    return git.line(*EXACT, "write-tree")
