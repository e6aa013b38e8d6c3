"""Commits exactly the code that runs, without touching the user's checkout.

HEAD with staged, changed, deleted and untracked (not ignored) files goes into a private index, from there into
a tree and a commit. The user's index, HEAD, branch, stash and reflogs stay byte for byte as they are; only objects
are added, which nothing refers to until a branch is claimed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.checkout import Checkout, locate, private_index
from autoresearch.git_repo.commits import commit_tree
from autoresearch.git_repo.git import LIST, Git, GitFailed, directory_locked, path_in_tree
from autoresearch.git_repo.snapshot_contents import MAX_BYTES, Exclusions, LeftOut, Pin, Survey, look
from autoresearch.records.failpoint import failpoint
from autoresearch.records.rundir import write_atomically

ATTEMPTS = 3  # files may change during the survey
_SPECIAL = re.compile(rb"([\\*?\[\]!# ])")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The created commit; `parent` is "" in a repository without a commit."""

    tree: str
    commit: str
    parent: str
    left_out: tuple[LeftOut, ...]
    dirty: tuple[str, ...]  # paths that differ from HEAD


def snapshot(
    checkout: Checkout,
    *,
    message: str,
    extra: Mapping[str, bytes] | None = None,
    leave_out: Iterable[Path] = (),
    parent: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Snapshot:
    """Commit what is on disk, with `extra` files, on `parent` (default HEAD).

    `extra` maps paths in the tree to content that must be there, even if ignored or left out; a file that the
    snapshot takes anyway with this content is stored as usual (filters, mode). Raises GitFailed if the repository
    cannot be read or written, UsageError for an impossible path.
    """
    own = Exclusions.of(checkout, leave_out, max_bytes)
    for attempt in range(1, ATTEMPTS + 1):
        with private_index(checkout) as git:
            found = look(git, own)
            failpoint("repository.surveyed")
            try:
                _fill(git, found, _missing(git, found, extra or {}))
            except GitFailed:
                if attempt == ATTEMPTS:
                    raise
                continue
            # git itself has just written or staged the blobs; checking each one would take a quarter of the time.
            tree = git.line("write-tree", "--missing-ok")
        failpoint("repository.tree")
        above = found.head if parent is None else parent
        commit = commit_tree(checkout.git, tree, above, message)
        failpoint("repository.commit")
        return Snapshot(tree, commit, above, found.left_out, found.dirty)
    raise AssertionError("unreachable")


def begin_repository(root: Path) -> tuple[str, tuple[LeftOut, ...]]:
    """`git init` in a directory, with a commit of what is there; returns the commit, and what it does not hold."""
    Git(root).run("init", "-q")
    checkout = locate(root)
    if not isinstance(checkout, Checkout):
        raise EnvironmentUnusable(f"git init made no repository in {root}: {checkout.reason}")
    shot = snapshot(checkout, message="start")
    checkout.git.run("update-ref", "HEAD", shot.commit, "")
    checkout.git.run("read-tree", "HEAD")
    checkout.git.run("update-index", "-q", "--refresh")
    return shot.commit, shot.left_out


def _fill(git: Git, survey: Survey, extra: Mapping[bytes, bytes]) -> None:
    """Update the private index to the files on disk; blobs are written to the repository."""
    pins = list(survey.pins)
    for path, content in extra.items():
        oid = git.line("hash-object", "-w", "--stdin", feed=content)
        pins.append(Pin("100644", oid, path))
    if pins:
        # Removals first, and without checking the disk: a tracked directory may have become a link.
        lines = sorted(pins, key=lambda pin: pin.mode != "0")
        git.run("update-index", "-z", "--index-info", feed=b"".join(pin.line for pin in lines))
    failpoint("repository.pinned")
    take = [path for path in survey.take if path not in extra]
    if take:
        command = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        git.run(*command, feed=b"\0".join(take))
    failpoint("repository.filled")


def _missing(git: Git, survey: Survey, extra: Mapping[str, bytes]) -> dict[bytes, bytes]:
    """The extra files that the tree would not contain, or not with this content."""
    missing = {path_in_tree(path): content for path, content in extra.items()}
    same = {path for path, content in missing.items() if _on_disk(git, path) == content}
    tracked = same.difference(survey.take)
    if tracked:
        names = map(os.fsdecode, tracked)
        tracked.intersection_update(git.run(*LIST, "--", *names).split(b"\0"))
    covered = (tracked | same.intersection(survey.take)).difference(pin.path for pin in survey.pins)
    return {path: content for path, content in missing.items() if path not in covered}


def _on_disk(git: Git, path: bytes) -> bytes | None:
    place = Path(os.fsdecode(os.fsencode(git.cwd) + b"/" + path))
    try:
        return None if place.is_symlink() else place.read_bytes()
    except OSError:
        return None


def exclude(checkout: Checkout, pattern: str) -> None:
    """Hide what a gitignore(5) pattern matches from `git status`, in .git/info/exclude, whose content is kept.

    Safe against concurrent processes; all worktrees of the repository share the file.
    Raises EnvironmentUnusable if it cannot be written.
    """
    path = Path(os.path.realpath(checkout.common_dir / "info" / "exclude"))  # may be a link into the user's dotfiles
    line = pattern.encode("utf-8", "surrogateescape")
    try:
        path.parent.mkdir(exist_ok=True)
        with directory_locked(path.parent):
            before = path.read_bytes() if path.exists() else b""
            if line in before.split(b"\n"):
                return
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
            gap = b"" if before.endswith(b"\n") or not before else b"\n"
            write_atomically(path, before + gap + line + b"\n", mode=mode)
    except OSError as error:
        raise EnvironmentUnusable(
            f"{path} cannot be written: {error.strerror}",
            hint=f"add {pattern} to .gitignore",
            code="no_exclude",
        ) from error


def pattern_for(checkout: Checkout, path: Path) -> str:
    """The pattern that matches exactly this path of the checkout; "" if it lies outside or is the root."""
    root, real = os.fsencode(checkout.root), os.fsencode(os.path.realpath(path))
    if not real.startswith(root + b"/"):
        return ""
    escaped = _SPECIAL.sub(rb"\\\1", real[len(root) :])
    return os.fsdecode(escaped.replace(b"\n", b"?"))  # a pattern is one line; ? is any character
