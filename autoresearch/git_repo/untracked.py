"""Decides which untracked files are code and belong in a snapshot."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from autoresearch.git_repo import file_screen
from autoresearch.git_repo.file_classes import NESTED, OWN, Exclusions, FileClasses
from autoresearch.git_repo.git import LIST, text

BUDGET_BYTES = 2**30  # in all: a data set that is not ignored must not be copied into .git
BLOCK_BYTES = 4096  # disk space of the smallest object

_VENV_PARTS = frozenset({b"bin", b"include", b"lib", b"lib64", b"share"})


def expand(piles: FileClasses, untracked: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the untracked files, expanding directories except those that are left out as a whole."""
    above: dict[bytes, str] = {b"": "named already"}  # directory -> why it is left out as a whole; "" if it is not
    inside: list[str] = []
    for path in untracked:
        directory = path.removesuffix(b"/")
        if directory == path:
            yield path
            continue
        above[directory] = _whole(piles, directory)
        if above[directory]:
            piles.leave(path, above[directory])
        else:
            inside.append(os.fsdecode(path))
    if not inside:
        return
    places = inside if sum(map(len, inside)) < 100_000 else []  # limit of a command line: then list all
    listed = piles.git.run(*LIST, "-o", "--exclude-standard", "--", *places)
    for path in filter(None, listed.split(b"\0")):
        bare = path.removesuffix(b"/")
        if bare not in above and _pruned(piles, bare.rpartition(b"/")[0], above):
            continue
        if bare == path:
            yield path
        else:  # git never enters another repository
            piles.leave(path, NESTED)


def _pruned(piles: FileClasses, directory: bytes, above: dict[bytes, str]) -> str:
    """Why `directory`, or one above it, is left out as a whole, recorded once; "" if it is not."""
    if directory not in above:
        above[directory] = _pruned(piles, directory.rpartition(b"/")[0], above)
        if not above[directory] and (reason := _whole(piles, directory)):
            above[directory] = reason
            piles.leave(directory + b"/", reason)
    return above[directory]


def _whole(piles: FileClasses, directory: bytes) -> str:
    """Why an untracked directory is left out as a whole; "" if it is not."""
    if piles.own.holds(directory):
        return OWN
    place = piles.absolute(directory)
    parent, _, name = place.rpartition(b"/")
    marks = [place + b"/pyvenv.cfg", place + b"/conda-meta"]
    if name in _VENV_PARTS:  # the virtual environment may have been created in a directory with code
        marks.append(parent + b"/pyvenv.cfg")
    return file_screen.VENV if any(map(os.path.lexists, marks)) else ""


def sort_untracked(piles: FileClasses, paths: Sequence[bytes]) -> None:
    """Take the untracked files that are neither secrets, weights nor data (by size); leave the others out."""
    wanted: list[tuple[int, bytes]] = []
    for path in paths:
        size = piles.size(path)
        if size is None:
            continue
        if reason := _unwanted(piles.own, path, size):
            piles.leave(path, reason, size)
        else:
            wanted.append((size, path))
    left = BUDGET_BYTES
    for size, path in sorted(wanted):  # smallest first: they are most likely code
        left -= max(size, BLOCK_BYTES)
        if left >= 0:
            piles.take.append(path)
        else:
            piles.leave(path, f"untracked files over {BUDGET_BYTES / 2**30:.0f} GB in all", size)


def _unwanted(own: Exclusions, path: bytes, size: int) -> str:
    name = text(path)
    if own.holds(path):
        return OWN
    if file_screen.is_secret(name):
        return file_screen.SECRET
    if file_screen.is_checkpoint(name):
        return file_screen.CHECKPOINT
    return f"untracked and larger than {own.max_bytes / 2**20:.0f} MB" if size > own.max_bytes else ""
