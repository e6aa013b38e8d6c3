"""What a checkout has and a commit lacks: found by git, and shown in a worktree at the same path."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from autoresearch.core.run.extra_paths import ExtraPath, Way
from autoresearch.core.text.regex import later
from autoresearch.errors import NotFoundError
from autoresearch.git_repo.checkout import Checkout, find, private_index
from autoresearch.git_repo.commits import submodules_of, write_files
from autoresearch.git_repo.git import LFS_FILES, LIST
from autoresearch.git_repo.remove_tree import empty, stays_inside, wipe
from autoresearch.records.hostile import read_readable

_POINTER = later(rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\nsize (\d+)\n")
_POINTER_BYTES = 1024  # at most


def extra_paths(checkout: Checkout, entries: Iterable[bytes]) -> tuple[str, ...]:
    """The paths that neither git nor a commit with these entries (as `git ls-tree -r` writes them) holds.

    A directory of which nothing is held is one path, which ends in a slash. Raises GitFailed.
    """
    with private_index(checkout) as git:
        held = b"".join(entry + b"\0" for entry in entries)
        if held:
            git.run("update-index", "--replace", "-z", "--index-info", feed=held)
        listed = git.run(*LIST, "--others", "--directory").split(b"\0")
        stored = filter(None, git.run("ls-files", "-z", "--", LFS_FILES).split(b"\0"))  # commits have pointers to them
    listed += [path for path in stored if not _is_pointer(checkout.root / os.fsdecode(path))]
    return tuple(os.fsdecode(path) for path in listed if path)


def _is_pointer(path: Path) -> bool:
    try:
        return read_readable(path, _POINTER_BYTES).startswith(b"version https://git-lfs.github.com/spec/")
    except OSError:
        return False


def fill_submodules(checkout: Checkout, worktree: Path, commit: str) -> None:
    """Write the files of the submodules of a commit, and of theirs, from what the checkout's own have.

    Nothing is fetched: one that is not there, or lacks the commit, stays an empty directory. To git it is a submodule
    that was not checked out, which it never enters.
    """
    for path, oid in submodules_of(checkout, commit).items():
        empty(worktree, path)
        if (own := _submodule(checkout, path, oid)) and stays_inside(worktree, worktree / path):
            with tempfile.TemporaryDirectory(prefix="autoresearch-submodule-") as directory:
                write_files(own.git_dir, Path(directory) / "index", worktree / path, oid)
            fill_submodules(own, worktree / path, oid)


def _submodule(checkout: Checkout, path: str, oid: str) -> Checkout | None:
    """The checkout of a submodule, if it has that commit."""
    own = find(checkout.root / path)
    if own is None or own.root != checkout.root / path:
        return None
    return own if own.git.ask("cat-file", "-e", f"{oid}^{{commit}}")[0] == 0 else None


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
        if _points_to(target, source):
            target.unlink()
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


def as_mount_points(root: Path, worktree: Path, paths: Iterable[ExtraPath]) -> dict[Path, Path]:
    """Make what `show` linked or copied there the places of binds; each, and the path of the checkout to bind there.

    A copy stays beneath; a link becomes an empty directory, or a file as large and as old, so that nobody takes it for
    an output. What each run has a copy of, and what the commit has, is none.
    """
    binds = {}
    for one in paths:
        source, target = Path(os.path.realpath(root / one.path)), worktree / one.path
        if target.is_symlink() and os.path.realpath(target) == str(source):
            target.unlink()
            if source.is_dir():
                target.mkdir()
            else:
                with target.open("wb") as file:
                    file.truncate(source.stat().st_size)
                shutil.copystat(source, target)
        elif one.way is not Way.COPY or not (target.is_dir() or is_as_in(root, worktree, one.path)):
            continue
        binds[target] = source
    return binds


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


def _points_to(pointer: Path, source: Path) -> bool:
    """Whether a file is a pointer of Git LFS to the content that the checkout has there (git-lfs, docs/spec.md)."""
    try:
        if not stat.S_ISREG(pointer.lstat().st_mode) or pointer.stat().st_size > _POINTER_BYTES:
            return False
        match, status = _POINTER.match(pointer.read_bytes()), source.stat()
        return bool(match and status.st_size == int(match[2]) and _sha256(source, status.st_mtime_ns) == match[1])
    except OSError:
        return False


@lru_cache(maxsize=10_000)
def _sha256(path: Path, changed: int) -> bytes:
    """The SHA-256 of a file as it was `changed` last, in hex."""
    import hashlib  # takes 3 ms to import

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest().encode()


def is_as_in(root: Path, worktree: Path, path: str) -> bool:
    """Whether a file of a worktree is the checkout's: a link to it, or a copy that nobody wrote to since."""
    try:
        ours, theirs = (worktree / path).stat(), (root / path).stat()
    except OSError:
        return False
    return (ours.st_size, ours.st_mtime_ns) == (theirs.st_size, theirs.st_mtime_ns)
