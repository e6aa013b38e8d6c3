"""Includes: untracked inputs (data, checkpoints), linked from a worktree into the user's checkout."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.errors import ConflictError, NotFoundError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.remove_tree import stays_inside

_GITLINK, _BLOCKING = "160000", "other"


def check_includes(checkout: Checkout, includes: Iterable[str], commit: str) -> tuple[Finding, ...]:
    """Findings against linking these paths into a worktree of `commit`; changes nothing.

    A path that is missing in the checkout, leaves the repository, or contains files of the commit is an
    error. A submodule may be included: its directory in a worktree is empty. Raises GitFailed.
    """
    wanted = list(includes)
    if not wanted:
        return ()
    kinds = _kinds(checkout, commit)
    return tuple(finding for number in range(len(wanted)) for finding in _check(checkout, wanted, number, kinds))


def link_includes(
    root: Path, worktree: Path, includes: Iterable[str], submodules: Collection[str] = ()
) -> tuple[str, ...]:
    """Create the links and return their paths. Raises ConflictError if a file of the commit is in the way,
    NotFoundError if the checkout no longer has such a path.

    A submodule's directory remains a directory and gets a link to each entry: git then takes it for a submodule that
    is not checked out, whereas a link in its place would be a change, and an error for `git status`.
    """
    made = []
    for relative in dict.fromkeys(map(_normal, includes)):
        if fault := _outside(relative):
            raise ConflictError(f"include {relative!r} {fault}", code="include_outside")
        for parent in reversed(PurePosixPath(relative).parents[:-1]):
            if not os.path.lexists(worktree / parent):
                (worktree / parent).mkdir()
            if not stays_inside(worktree, worktree / parent):
                raise _in_the_way(relative)
        if not (root / relative).exists():
            raise NotFoundError(f"include {relative!r} is gone from {root}", code="include_missing")
        names = [relative]
        if relative in submodules:
            names = [f"{relative}/{entry.name}" for entry in (root / relative).iterdir() if entry.name != ".git"]
        for name in names:
            if os.path.lexists(worktree / name):
                raise _in_the_way(relative)
            (worktree / name).symlink_to(root / name)
        made.append(relative)
    return tuple(made)


def _ignored(checkout: Checkout, relative: str) -> bool:
    with checkout.git.start("check-ignore", "-q", "--", f"./{relative}") as asked:
        return asked.finish()[0] == 0


def _in_the_way(relative: str) -> ConflictError:
    message = f"include {relative} cannot be linked: the commit has something of its own there"
    return ConflictError(message, hint="include only what is not tracked", code="include_tracked")


def _check(checkout: Checkout, patterns: list[str], number: int, kinds: dict[str, str]) -> Iterator[Finding]:
    include = patterns[number]
    relative = _normal(include)

    def error(code: str, clause: str, hint: str) -> Finding:
        return Finding(Severity.ERROR, code, f"include {include!r} {clause}", hint)

    if fault := _outside(relative):
        yield error("include_outside", fault, f"write it relative to {checkout.root}")
        return
    above = [str(parent) for parent in PurePosixPath(relative).parents][:-1]
    others = {_normal(other) for other in patterns[:number]}
    if relative in others or any(_normal(other) in above for other in patterns):
        yield error("include_twice", "is included already", "take one of the two out")
        return
    place = checkout.root / relative
    if not place.exists():
        dangling = "is a link to nothing" if place.is_symlink() else f"is not there: {place}"
        pattern = bool(set(relative) & set("*?["))
        hint = "patterns are not expanded; name the directory" if pattern else "make it, or take it out"
        yield error("include_missing", dangling, hint)
        return
    if linked := next((a for a in above if (checkout.root / a).is_symlink()), ""):
        yield error("include_outside", f"lies behind the link {linked}", f"include {linked} itself")
    if (blocker := next((a for a in above if kinds.get(a) not in (None, "tree")), "")) and not linked:
        yield error("include_tracked", f"lies in {blocker}, which is tracked", "include only what is not tracked")
    kind = kinds.get(relative)
    if kind == "tree":
        hint = "name the untracked parts of it one by one"
        yield error("include_tracked", "holds files of the commit", hint)
    elif kind == _BLOCKING:
        yield error("include_tracked", "is a file of the commit", "take it out: the worktree has it anyway")
    elif kind == _GITLINK:
        message = f"include {include!r} is a submodule: runs see what your checkout holds there, not the commit"
        yield Finding(Severity.WARNING, "include_submodule", message, "leave it alone while the campaign runs")
    elif not linked and not blocker and not _ignored(checkout, relative):
        message = f"include {include!r} is not ignored by git: a commit made by hand in a worktree would hold the link"
        yield Finding(Severity.WARNING, "include_not_ignored", message, f"add /{relative} to .gitignore")


def _kinds(checkout: Checkout, commit: str) -> dict[str, str]:
    """The kind of each path of the commit: "tree", _GITLINK for a submodule, or _BLOCKING for anything else."""
    kinds: dict[str, str] = {}
    for record in checkout.git.run("ls-tree", "-r", "-t", "-z", "--full-tree", commit).split(b"\0"):
        head, _, path = record.partition(b"\t")
        name = os.fsdecode(path)
        kinds[name] = "tree" if b" tree " in head else _GITLINK if head.startswith(b"160000 ") else _BLOCKING
    return kinds


def _normal(include: str) -> str:
    """Normalize a path: `./data/` becomes `data`; leading `..` parts are kept."""
    path = os.path.normpath(include) if include else ""
    return "" if path == "." else path


def _outside(relative: str) -> str:
    """Why a normalized path names nothing inside the repository, as the end of a sentence; "" if it does."""
    if not relative:
        return "names no path"
    if relative.startswith("/"):
        return "is an absolute path"
    parts = relative.split("/")
    if ".." in parts:
        return "leaves the repository"
    if any(part.lower() == ".git" for part in parts) or "\0" in relative:
        return "is not a path that can be linked"
    return ""
