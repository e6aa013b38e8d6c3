"""Commits by plumbing: made in a private index, read without one, and written to a directory.

A hypothesis is its parent plus patches and whole files. No checkout is touched, no hook runs and nothing is signed;
nothing refers to a commit until a branch is claimed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autoresearch.core.text.regex import later
from autoresearch.errors import ConflictError
from autoresearch.git_repo.checkout import Checkout, private_index
from autoresearch.git_repo.git import Git, GitFailed, below, path_in_tree, text
from autoresearch.git_repo.remove_tree import make_writable, remove_pipes
from autoresearch.runner.basics import failpoint
from autoresearch.runner.masking import clean_text

NAME, EMAIL = "autoresearch", "autoresearch@localhost"  # for machines without a configured identity
FULL = ("-c", "core.sparseCheckout=false", "-c", "index.sparse=false")  # a sparse index omits parts of a tree
STRICT = ("-c", "apply.ignoreWhitespace=no", "-c", "apply.whitespace=nowarn")
# Overrides user settings that would make git trust a file without checking it, or leave files out.
EXACT = tuple(
    part
    for setting in (
        "core.trustctime=true",
        "core.checkStat=default",
        "core.ignoreStat=false",
        "core.fileMode=true",
        "core.untrackedCache=false",
        "core.sparseCheckout=false",
        "index.sparse=false",
        "submodule.recurse=false",
        "advice.detachedHead=false",
    )
    for part in ("-c", setting)
)
_SUBMODULE = b"160000 "
_PREFIXED = later(rb"^(?:diff --git \"?a/|--- \"?a/|\+\+\+ \"?b/)", re.MULTILINE)


class PatchError(ConflictError):
    """A patch does not apply to the parent commit; `said` is git's error message."""

    code = "patch_failed"

    def __init__(self, number: int, parent: str, reason: str) -> None:
        self.number = number  # from 1
        self.reason = reason
        first = " ".join(reason.split())[:500] or "git said nothing"
        super().__init__(
            f"patch {number} does not apply to {parent[:12]}: {first}",
            hint="make it again from the parent commit: `git diff` against that, paths from the root",
        )


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of a hypothesis to its parent's tree: patches first, in order, then files.

    `files` maps a path to its whole new content; None removes the file. A file keeps its mode (a link
    becomes a file); a new one is executable if it begins with `#!`.
    """

    patches: Sequence[str | bytes] = ()
    files: Mapping[str, bytes | None] | None = None
    merge: bool = False  # apply patches by a 3-way merge where they do not apply exactly


@dataclass(frozen=True, slots=True)
class Committed:
    """A created commit; nothing refers to it until a branch is claimed."""

    commit: str
    tree: str
    parent: str
    changes_nothing: bool  # but for the uncounted paths, it is the parent's tree


def commit_hypothesis(
    checkout: Checkout,
    parent: str,
    change: Change,
    *,
    message: str,
    uncounted: Collection[str] = (),
    when: int | None = None,
) -> Committed:
    """Commit a change on `parent`. The same arguments give the same tree, and with `when` the same commit.

    `uncounted`: paths (files or directories) that are not code, such as the blueprint: they are committed, but not
    counted as changes. `when`: see `commit_tree`. Raises PatchError, UsageError for an impossible path, ConflictError
    for a file to be removed that is not there, GitFailed if the repository cannot be used.
    """
    commit = checkout.commit(parent)
    with private_index(checkout) as git:
        git.run(*FULL, "read-tree", commit)
        for number, patch in enumerate(change.patches, 1):
            _apply(git, number, commit, patch, ("--3way",) if change.merge else ())
        if change.files:
            _put(git, change.files, no_object=b"0" * len(commit))
        tree = git.line(*FULL, "write-tree")
    before, after = entries_of(checkout, commit), entries_of(checkout, tree)
    failpoint("repository.hypothesis_filled")
    made = commit_tree(checkout.git, tree, commit, message, when=when)
    failpoint("repository.hypothesis_committed")
    apart = [path_in_tree(path.rstrip("/")) for path in uncounted]
    same = all(below(path, apart) for path, _ in before.items() ^ after.items())
    return Committed(made, tree, commit, same)


def commit_tree(git: Git, tree: str, parent: str, message: str, *, when: int | None = None) -> str:
    """Create a commit on `parent` ("" for none) and return its id. Secrets in the message are masked.

    `when`: author's and committer's date, in seconds since the epoch; it makes the id reproducible. Raises GitFailed.
    """
    words = clean_text(message).replace("\0", " ").encode("utf-8", "backslashreplace")
    command = ("commit-tree", tree, *(("-p", parent) if parent else ()), "-F", "-")
    extra = {} if when is None else dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"@{when} +0000")
    for key, variable, ours in (("user.name", "NAME", NAME), ("user.email", "EMAIL", EMAIL)):
        configured = git.line("config", "--default", "", key) or ours
        for name in (f"GIT_AUTHOR_{variable}", f"GIT_COMMITTER_{variable}"):
            extra[name] = os.environ.get(name, configured)
    return git.line(*command, feed=words, extra=extra)


def _apply(git: Git, number: int, parent: str, patch: str | bytes, how: Sequence[str]) -> None:
    """Apply one patch to the index, completely or not at all. Raises PatchError."""
    data = patch if isinstance(patch, bytes) else patch.encode("utf-8", "surrogateescape")
    data += b"" if data.endswith(b"\n") else b"\n"
    depth = "-p1" if _PREFIXED.search(data) else "-p0"  # `diff.noprefix` is popular
    try:
        git.run(*FULL, *STRICT, "apply", "--cached", "--binary", *how, depth, "-", feed=data)
    except GitFailed as failure:
        raise PatchError(number, parent, failure.stderr) from failure


def _put(git: Git, files: Mapping[str, bytes | None], *, no_object: bytes) -> None:
    """Write these files into the index, byte for byte, without filters. Raises ConflictError."""
    contents = {path_in_tree(path): content for path, content in sorted(files.items())}
    listed = git.run(*FULL, "ls-files", "--stage", "-z").split(b"\0")[:-1]
    modes = {path: head[:6] for head, _, path in (entry.partition(b"\t") for entry in listed)}
    gone = [path for path, content in contents.items() if content is None]
    put = {path: content for path, content in contents.items() if content is not None}
    for path in gone:
        if path not in modes:
            clause = "cannot be removed: there is no such file in the parent commit"
            raise ConflictError(f"{text(path)} {clause}", code="file_blocked")
    lines = [b"0 %s\t%s\0" % (no_object, path) for path in gone]
    for path, content in put.items():
        mode = modes.get(path) or (b"100755" if content.startswith(b"#!") else b"100644")
        mode = mode if mode in (b"100644", b"100755") else b"100644"
        name = git.line("hash-object", "-w", "--stdin", feed=content)
        lines.append(b"%s %s\t%s\0" % (mode, name.encode(), path))
    git.run(*FULL, "update-index", "-z", "--index-info", feed=b"".join(lines))


@lru_cache(maxsize=4)  # what an id stands for never changes; ideas have the same parent again and again
def entries_of(checkout: Checkout, commit: str) -> Mapping[bytes, bytes]:
    """The files and submodules of a commit or tree, given by its id: path -> mode, kind and id. Raises GitFailed."""
    lines = checkout.git.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]
    return {path: head for head, _, path in (line.partition(b"\t") for line in lines)}


def lines_of(checkout: Checkout, commit: str) -> Iterator[bytes]:
    """The same, as `git ls-tree` writes it."""
    return (b"%s\t%s" % (head, path) for path, head in entries_of(checkout, commit).items())


def submodules_of(checkout: Checkout, commit: str) -> dict[str, str]:
    """The path of each submodule of a commit, and the commit that it is at."""
    entries = entries_of(checkout, commit).items()
    return {os.fsdecode(path): head.split(b" ")[2].decode() for path, head in entries if head.startswith(_SUBMODULE)}


def write_files(git_dir: Path, index: Path, directory: Path, commit: str, *, anew: bool = True) -> None:
    """Make `directory` hold exactly the files of a commit, beside its own `.git`, and `index` their entries.

    anew: every file is written again; otherwise those stay that nobody touched. Raises GitFailed.
    """
    remove_pipes(directory)
    try:
        _write_files(git_dir, index, directory, commit, anew=anew)
    except GitFailed:
        make_writable(directory)
        _write_files(git_dir, index, directory, commit, anew=anew)


def _write_files(git_dir: Path, index: Path, directory: Path, commit: str, *, anew: bool) -> None:
    git, where = Git(directory, index), (f"--git-dir={git_dir}", f"--work-tree={directory}", *EXACT)
    attributes = ("diff-index", "--cached", "--name-only", commit, "--", ":(glob)**/.gitattributes")
    if anew or git.run(*where, *attributes):  # by other attributes, the same blob may be another file
        index.unlink(missing_ok=True)
    git.run(*where, "read-tree", "--reset", commit)
    git.run(*where, "clean", "-ffdxq")  # before anything is written: git would obey a .gitattributes among them
    git.run(*where, "read-tree", "--reset", "-u", commit)
