"""What a checkout has and a commit lacks: found by git, and shown in a worktree at the same path."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from autoresearch.core.run.extra_paths import ExtraPath, Way
from autoresearch.errors import NotFoundError
from autoresearch.git_repo.checkout import Checkout, private_index
from autoresearch.git_repo.git import LIST
from autoresearch.git_repo.remove_tree import stays_inside, wipe


def extra_paths(checkout: Checkout, entries: Iterable[bytes]) -> tuple[str, ...]:
    """The paths that neither git nor a commit with these entries (as `git ls-tree -r` writes them) holds.

    A directory of which nothing is held is one path, which ends in a slash. Raises GitFailed.
    """
    with private_index(checkout) as git:
        held = b"".join(entry + b"\0" for entry in entries)
        if held:
            git.run("update-index", "--replace", "-z", "--index-info", feed=held)
        listed = git.run(*LIST, "--others", "--directory").split(b"\0")
    return tuple(os.fsdecode(path) for path in listed if path)


def show(root: Path, worktree: Path, paths: Iterable[ExtraPath]) -> list[str]:
    """Copy or link these paths of a checkout into a worktree that has its commit's files; theirs stay.

    In a directory that the commit has, too, each of the checkout's entries that it lacks is linked. Returns the paths
    that no `include:` names. Raises NotFoundError if one that it names is gone.
    """
    unnamed = []
    for one in paths:
        source, target = root / one.path, worktree / one.path
        if not os.path.lexists(source):
            if one.included:
                raise NotFoundError(f"include: {one.name} is gone from {root}", code="include_missing")
            continue
        for parent in reversed(target.relative_to(worktree).parents[:-1]):
            if not os.path.lexists(worktree / parent):
                (worktree / parent).mkdir()
            if not stays_inside(worktree, worktree / parent):
                break
        if not one.way.is_shown or not stays_inside(worktree, target.parent):
            continue
        if os.path.lexists(target):  # the commit has something of its own there
            if source.is_dir() and stays_inside(worktree, target):
                for name in {entry.name for entry in source.iterdir()} - {entry.name for entry in target.iterdir()}:
                    (target / name).symlink_to(source / name)
                    unnamed += [] if one.included else [f"{one.path}/{name}"]
            continue
        unnamed += [] if one.included else [one.path]
        try:
            _copy(source, target) if one.way in (Way.COPY, Way.OWN) else target.symlink_to(source)
        except (OSError, RecursionError):  # something that cannot be read, or that changes meanwhile
            if one.way is Way.OWN:
                raise
            wipe(target)
            target.symlink_to(source)
    return unnamed


def _copy(source: Path, target: Path) -> None:
    """Copy a file, or a directory without what is neither a file nor a directory nor a link; times stay the same."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=_odd)
    else:
        shutil.copy2(source, target)


def _odd(directory: str, names: list[str]) -> set[str]:
    """Sockets, pipes and devices."""
    modes = {name: stat.S_IFMT(os.lstat(f"{directory}/{name}").st_mode) for name in names}
    return {name for name, mode in modes.items() if mode not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)}


def is_as_in(root: Path, worktree: Path, path: str) -> bool:
    """Whether a file of a worktree is the checkout's: a link to it, or a copy that nobody wrote to since."""
    try:
        ours, theirs = (worktree / path).stat(), (root / path).stat()
    except OSError:
        return False
    return (ours.st_size, ours.st_mtime_ns) == (theirs.st_size, theirs.st_mtime_ns)
