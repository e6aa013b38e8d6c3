"""Inputs of a run in a worktree: untracked ones that are linked from the user's checkout, and what will be missing.

Missing are submodules, and files whose content a filter (e.g. LFS) stores elsewhere.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.text.regex import later
from autoresearch.errors import ConflictError, NotFoundError
from autoresearch.git_repo.checkout import Checkout, private_index
from autoresearch.git_repo.fresh_files import own_settings
from autoresearch.git_repo.git import text
from autoresearch.git_repo.remove_tree import stays_inside

_GITLINK, _BLOCKING = "160000", "other"
_POINTER = later(rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\n")
_POINTER_BYTES = 1024  # the specification's limit
_LOOKED_AT = 10_000  # at most so many pointers are checked for their objects


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
    elif not linked and not blocker and not checkout.ignores(f"./{relative}"):
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


def lacking(checkout: Checkout, commit: str, includes: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Warnings for submodules that no include replaces, and for files that filters (such as LFS) will not restore.

    Changes nothing and runs neither `git submodule` nor `git lfs`. Raises GitFailed.
    """
    blobs: dict[bytes, bytes] = {}
    empty: list[bytes] = []
    linked = {os.path.normpath(include) for include in includes}
    for record in checkout.git.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
        head, _, path = record.partition(b"\t")
        if head.startswith(b"160000 ") and os.fsdecode(path) not in linked:
            empty.append(path)
        elif head.startswith(b"100"):
            blobs[path] = head.rpartition(b" ")[2]
    findings = _filtered(checkout, commit, blobs)
    if empty:
        message = f"{_count(empty, 'submodule')} will be an empty directory in the worktree: {_some(empty)}"
        hint = f"where the trainer needs it, `include: {text(empty[0])}` links the one of your checkout"
        findings.insert(0, Finding(Severity.WARNING, "submodules", message, hint))
    return tuple(findings)


def _filtered(checkout: Checkout, commit: str, blobs: dict[bytes, bytes]) -> list[Finding]:
    """Findings for files whose content is produced by a filter program (gitattributes(5), `filter`) that is missing."""
    attributes = [oid for path, oid in blobs.items() if path.rpartition(b"/")[2] == b".gitattributes"]
    if not any(b"filter=" in checkout.git.run("cat-file", "blob", oid.decode()) for oid in attributes):
        return []
    found: dict[str, list[bytes]] = {}
    with private_index(checkout) as git:  # attributes of the commit, not of the checkout
        git.run("-c", "core.sparseCheckout=false", "read-tree", commit)
        answer = git.run("check-attr", "--cached", "--stdin", "-z", "filter", feed=b"\0".join(blobs) + b"\0")
    fields = answer.split(b"\0")
    for path, value in zip(fields[::3], fields[2::3], strict=False):
        if value not in (b"unspecified", b"unset", b"set"):
            found.setdefault(text(value), []).append(path)
    findings = []
    for name, paths in found.items():
        if name == "lfs" and shutil.which("git-lfs"):
            findings += _absent_objects(checkout, blobs, paths)
        elif name == "lfs":
            message = f"git-lfs is not installed: {_count(paths, 'file')} will be LFS pointers in the worktree"
            hint = "install git-lfs, or include the real files"
            findings.append(Finding(Severity.WARNING, "lfs_pointers", f"{message}: {_some(paths)}", hint))
        elif why := _not_run(checkout, name):
            message = f"the filter {name!r} is {why}: {_count(paths, 'file')} will be as stored in git"
            hint = f"`git config --global filter.{name}.smudge ...` if the trainer reads them"
            findings.append(Finding(Severity.WARNING, "filter_missing", f"{message}: {_some(paths)}", hint))
    return findings


def _absent_objects(checkout: Checkout, blobs: dict[bytes, bytes], paths: Sequence[bytes]) -> list[Finding]:
    """A finding for LFS files whose content is not on this machine: git-lfs would download it."""
    oids = [blobs[path] for path in paths[:_LOOKED_AT]]
    store = checkout.common_dir / "lfs" / "objects"
    absent = []
    for path, pointer in zip(paths, _pointers(checkout, oids), strict=False):
        if pointer and not (store / pointer[:2] / pointer[2:4] / pointer).exists():
            absent.append(path)
    if not absent:
        return []
    message = f"{_count(absent, 'LFS file')} not on this machine: {_some(absent)}"
    return [Finding(Severity.WARNING, "lfs_absent", message, "run `git lfs fetch` before the campaign")]


def _pointers(checkout: Checkout, oids: Sequence[bytes]) -> list[str]:
    """The LFS object that each blob points to; "" for a blob that is not a pointer."""
    sizes = checkout.git.run("cat-file", "--batch-check=%(objectsize)", feed=b"\n".join(oids) + b"\n").split()
    small = [oid for oid, size in zip(oids, sizes, strict=True) if int(size) <= _POINTER_BYTES]
    answer = checkout.git.run("cat-file", "--batch", feed=b"".join(oid + b"\n" for oid in small)) if small else b""
    found: dict[bytes, str] = {}
    at = 0
    for oid in small:  # `<oid> blob <size>\n<content>\n`
        end = answer.index(b"\n", at)
        size = int(answer[at:end].rpartition(b" ")[2])
        match = _POINTER.match(answer[end + 1 : end + 1 + size])
        found[oid] = match[1].decode() if match else ""
        at = end + size + 2
    return [found.get(oid, "") for oid in oids]


def _not_run(checkout: Checkout, name: str) -> str:
    """Why git runs no program for this filter when it writes the files of a worktree; "" if it does."""
    keys = [f"filter.{name}.{key}" for key in ("smudge", "process")]
    if not any(checkout.git.line("config", "--default", "", key) for key in keys):
        return "not configured"
    only_here = not set(keys).isdisjoint(own_settings(checkout))
    return "configured in .git/config, which a run may have changed, and not run" if only_here else ""


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _some(paths: Sequence[bytes]) -> str:
    names = ", ".join(text(path) for path in paths[:3])
    return names + (", ..." if len(paths) > 3 else "")
