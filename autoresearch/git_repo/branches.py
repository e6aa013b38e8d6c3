"""Branches by git plumbing: claimed atomically, moved only from an expected commit, never deleted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from autoresearch.core.text.session_and_branch_names import first_free
from autoresearch.errors import ConflictError, UsageError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import Git, GitFailed
from autoresearch.runner.basics import failpoint

NAME_MAX_BYTES = 240  # per component: the file system's 255, less ".lock" and the suffix "-NNNN"
ATTEMPTS = 1000


def is_branch_name(name: str) -> bool:
    """Whether git and the file system accept a branch name."""
    if name == "@" or "\0" in name or max(len(os.fsencode(part)) for part in name.split("/")) > NAME_MAX_BYTES:
        return False
    return Git(Path("/")).ask("check-ref-format", "--branch", name)[0] == 0


def claim_branch(checkout: Checkout, name: str, commit: str, *, again: Callable[[str], bool] = lambda _: False) -> str:
    """Create the branch `name` at `commit` and return its name; if it is taken, `name-2`, `name-3` ...

    The claim is one `update-ref NEW 0...0`, so of concurrent processes exactly one gets a name. If a branch `a`
    blocks `a/b`, the latter becomes `a-2/b`. `again` tells whether an existing branch was claimed for the same
    purpose before a crash; then its name is returned. Raises UsageError for an impossible name, ConflictError when
    a thousand names are taken, GitFailed if the repository cannot be written.
    """
    if not is_branch_name(name):
        raise UsageError(f"{name[:80]!r} cannot be a branch name", hint="see `git help check-ref-format`")
    stem, wanted, number = name, name, 1
    for _ in range(ATTEMPTS):
        try:
            _update_ref(checkout, wanted, commit, "0" * len(commit))
            failpoint("repository.claimed")
            return wanted
        except GitFailed as refusal:
            if "cannot create" in refusal.stderr and (blocked := _shadowed(checkout, wanted)):
                stem = wanted = blocked
                number = 1
                continue
            if not _taken(checkout, wanted, refusal):
                raise
        if again(wanted):
            return wanted
        number += 1
        wanted = f"{stem}-{number}"
    raise ConflictError(f"{ATTEMPTS} branches named like {name} exist already", hint="choose another name")


def advance_branch(checkout: Checkout, name: str, commit: str, expected: str) -> None:
    """Move a branch from `expected` to a follow-up commit. Raises ConflictError if it is at another commit by now,
    or checked out: moving it would then change what that working tree is compared with."""
    if place := checked_out_at(checkout, name):
        raise ConflictError(
            f"branch {name} is checked out at {place}",
            hint="the follow-up commit needs a branch of its own",
            code="branch_checked_out",
        )
    try:
        _update_ref(checkout, name, commit, expected)
    except GitFailed as failure:
        found = branch_commit(checkout, name)
        if found == expected:
            raise
        where = f"at {found[:12]}" if found else "gone"
        raise ConflictError(
            f"branch {name} is {where}, not at {expected[:12]}: somebody moved it", code="branch_moved"
        ) from failure


def branch_commit(checkout: Checkout, name: str) -> str | None:
    """The commit that a local branch points to; None if there is no such branch."""
    status, out, _ = checkout.git.ask("show-ref", "--verify", "--hash", f"refs/heads/{name}")
    return out.decode().strip() if status == 0 else None


def checked_out_at(checkout: Checkout, name: str) -> str:
    """The working tree in which this branch is checked out; "" if there is none."""
    place = ""
    for line in os.fsdecode(checkout.git.run("worktree", "list", "--porcelain")).split("\n"):
        if line.startswith("worktree "):
            place = line.removeprefix("worktree ")
        elif line == f"branch refs/heads/{name}":
            return place
    return ""


def _update_ref(checkout: Checkout, name: str, commit: str, expected: str) -> None:
    checkout.git.run("update-ref", "-m", "autoresearch: snapshot", f"refs/heads/{name}", commit, expected)


def _shadowed(checkout: Checkout, name: str) -> str:
    """If a branch has the name of one of `name`'s directories: `name` with that directory renamed; else ""."""
    parts = name.split("/")
    above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    for directory in above:
        if branch_commit(checkout, directory):
            return first_free(directory, lambda one: branch_commit(checkout, one)) + name.removeprefix(directory)
    return ""


def _taken(checkout: Checkout, name: str, git_error: GitFailed) -> bool:
    """Whether a claim failed because of the name: it exists, is a directory of other branches, or is locked."""
    said = git_error.stderr
    if "File exists" in said:  # refs/heads/NAME.lock, held or left behind: blocks only that name
        return f"{name}.lock" in said
    return "already exists" in said or "cannot create" in said or branch_commit(checkout, name) is not None
