"""What a commit holds, read without an index, and written to a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import Git, GitFailed
from autoresearch.git_repo.remove_tree import make_writable, remove_pipes

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
