"""What a worktree of a commit will lack: submodules, and files whose content a filter (e.g. LFS) stores elsewhere."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import text
from autoresearch.git_repo.private_index import private_index

_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\n")
_POINTER_BYTES = 1024  # the specification's limit
_LOOKED_AT = 10_000  # at most so many pointers are checked for their objects


@dataclass(slots=True)
class _CommitTree:
    """A commit's tree: blob by path, and the submodules."""

    blobs: dict[bytes, bytes] = field(default_factory=dict)
    submodules: list[bytes] = field(default_factory=list)


def lacking(checkout: Checkout, commit: str, includes: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Warnings for submodules that no include replaces, and for files that filters (such as LFS) will not restore.

    Changes nothing and runs neither `git submodule` nor `git lfs`. Raises GitFailed.
    """
    tree = _read(checkout, commit)
    linked = {os.path.normpath(include) for include in includes}
    empty = [path for path in tree.submodules if os.fsdecode(path) not in linked]
    return (*_empty(empty), *_filtered(checkout, commit, tree))


def _read(checkout: Checkout, commit: str) -> _CommitTree:
    tree = _CommitTree()
    for record in checkout.git.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
        head, _, path = record.partition(b"\t")
        if head.startswith(b"160000 "):
            tree.submodules.append(path)
        elif head.startswith(b"100"):
            tree.blobs[path] = head.rpartition(b" ")[2]
    return tree


def _empty(submodules: Sequence[bytes]) -> list[Finding]:
    if not submodules:
        return []
    names = _some(submodules)
    message = f"{_count(submodules, 'submodule')} will be an empty directory in the worktree: {names}"
    hint = f"where the trainer needs it, `include: {text(submodules[0])}` links the one of your checkout"
    return [Finding(Severity.WARNING, "submodules", message, hint)]


def _filtered(checkout: Checkout, commit: str, tree: _CommitTree) -> list[Finding]:
    """Findings for files whose content is produced by a filter program (gitattributes(5), `filter`) that is missing."""
    attributes = [oid for path, oid in tree.blobs.items() if path.rpartition(b"/")[2] == b".gitattributes"]
    if not any(b"filter=" in checkout.git.run("cat-file", "blob", oid.decode()) for oid in attributes):
        return []
    found: dict[str, list[bytes]] = {}
    with private_index(checkout) as git:  # attributes of the commit, not of the checkout
        git.run("-c", "core.sparseCheckout=false", "read-tree", commit)
        answer = git.run("check-attr", "--cached", "--stdin", "-z", "filter", feed=b"\0".join(tree.blobs) + b"\0")
    fields = answer.split(b"\0")
    for path, value in zip(fields[::3], fields[2::3], strict=False):
        if value not in (b"unspecified", b"unset", b"set"):
            found.setdefault(text(value), []).append(path)
    findings = []
    for name, paths in found.items():
        if name == "lfs" and shutil.which("git-lfs"):
            findings += _absent_objects(checkout, tree, paths)
        elif name == "lfs":
            message = f"git-lfs is not installed: {_count(paths, 'file')} will be LFS pointers in the worktree"
            hint = "install git-lfs, or include the real files"
            findings.append(Finding(Severity.WARNING, "lfs_pointers", f"{message}: {_some(paths)}", hint))
        elif not _configured(checkout, name):
            message = f"the filter {name!r} is not configured: {_count(paths, 'file')} will be as stored in git"
            hint = f"configure filter.{name}.smudge if the trainer reads them"
            findings.append(Finding(Severity.WARNING, "filter_missing", f"{message}: {_some(paths)}", hint))
    return findings


def _absent_objects(checkout: Checkout, tree: _CommitTree, paths: Sequence[bytes]) -> list[Finding]:
    """A finding for LFS files whose content is not on this machine: git-lfs would download it."""
    oids = [tree.blobs[path] for path in paths[:_LOOKED_AT]]
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


def _configured(checkout: Checkout, name: str) -> bool:
    """Whether a program is configured in git for this filter."""
    return any(checkout.git.line("config", "--default", "", f"filter.{name}.{key}") for key in ("smudge", "process"))


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _some(paths: Sequence[bytes]) -> str:
    names = ", ".join(text(path) for path in paths[:3])
    return names + (", ..." if len(paths) > 3 else "")
