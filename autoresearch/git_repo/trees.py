"""Trees read without an index."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from autoresearch.git_repo.checkout import Checkout

_TREE = b"040000 tree "


@lru_cache(maxsize=4)  # what an id stands for never changes; ideas have the same parent again and again
def listing(checkout: Checkout, tree: str) -> bytes:
    """Every file and directory of a commit or tree, given by its id, as `ls-tree -z` prints them. Raises GitFailed."""
    return checkout.git.run("ls-tree", "-r", "-t", "-z", "--full-tree", tree)


@lru_cache(maxsize=256)
def holds(checkout: Checkout, commit: str, path: str) -> bool:
    """Whether a commit has a file or directory of this name. Raises GitFailed."""
    wanted = path.encode("utf-8", "surrogateescape")
    return any(name == wanted for name, _ in _records(checkout, commit))


def entries_of(checkout: Checkout, tree: str) -> dict[bytes, bytes]:
    """The files of a commit or tree: path -> mode, kind and id, as `ls-tree` prints them. Raises GitFailed."""
    return {path: head for path, head in _records(checkout, tree) if not head.startswith(_TREE)}


def _records(checkout: Checkout, tree: str) -> Iterator[tuple[bytes, bytes]]:
    for record in listing(checkout, tree).split(b"\0"):
        head, _, path = record.partition(b"\t")
        if path:
            yield path, head
