"""Branches by git plumbing: claimed atomically, moved only from an expected commit, never deleted."""

from __future__ import annotations

import os
from collections.abc import Callable

from autoresearch.core.text.regex import later
from autoresearch.core.text.session_and_branch_names import first_free
from autoresearch.errors import ConflictError, UsageError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import GitFailed
from autoresearch.runner.basics import failpoint

NAME_MAX_BYTES = 240  # per component: the file system's 255, less ".lock" and the suffix "-NNNN"
PATH_MAX_BYTES = 1000
ATTEMPTS = 1000
_FORBIDDEN = later(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def branch_fault(name: str) -> str:
    """What is wrong with a branch name, as a clause; "" if git and the file system accept it.

    The rules are those of git-check-ref-format(1) with --branch, and limits of length, which git leaves to the file
    system.
    """
    if not name or name in ("@", "HEAD"):
        return "it is not a name"
    if name.startswith("-"):
        return "it begins with a hyphen"
    if found := _FORBIDDEN.search(name):
        return f"it contains {found.group()!r}"
    if name.endswith((".", "/")) or name.startswith("/"):
        return f"it begins or ends with {name[-1] if name.endswith(('.', '/')) else '/'!r}"
    parts = name.split("/")
    if any(part.startswith(".") or part.endswith(".lock") for part in parts):
        return "a part of it begins with a dot or ends with .lock"
    encoded = [part.encode("utf-8", "surrogateescape") for part in parts]
    if max(map(len, encoded)) > NAME_MAX_BYTES or sum(map(len, encoded)) > PATH_MAX_BYTES:
        return f"it is too long (a part may have {NAME_MAX_BYTES} bytes)"
    return ""


def claim_branch(checkout: Checkout, name: str, commit: str, *, again: Callable[[str], bool] = lambda _: False) -> str:
    """Create the branch `name` at `commit` and return its name; if it is taken, `name-2`, `name-3` ...

    The claim is one `update-ref NEW 0...0`, so of concurrent processes exactly one gets a name. If a branch `a`
    blocks `a/b`, the latter becomes `a-2/b`. `again` tells whether an existing branch was claimed for the same
    purpose before a crash; then its name is returned. Raises UsageError for an impossible name, ConflictError when
    a thousand names are taken, GitFailed if the repository cannot be written.
    """
    if fault := branch_fault(name):
        raise UsageError(f"{name[:80]!r} cannot be a branch name: {fault}")
    stem, wanted, number = name, name, 1
    for _ in range(ATTEMPTS):
        if not (wanted == checkout.branch and not checkout.head):  # the unborn branch of a repository without a commit
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
    if branch_fault(name):
        return None
    status, out, _ = checkout.git.ask("rev-parse", "--verify", "--quiet", f"refs/heads/{name}^{{commit}}")
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
