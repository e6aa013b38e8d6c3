"""Trees read and written without an index: only directories that change are written, whatever else a commit holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache

from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import GitFailed

_TREE = b"040000 tree "


@lru_cache(maxsize=4)  # what an id stands for never changes; ideas have the same parent again and again
def listing(checkout: Checkout, tree: str) -> bytes:
    """Every file and directory of a commit or tree, given by its id, as `ls-tree -z` prints them. Raises GitFailed."""
    return checkout.git.run("ls-tree", "-r", "-t", "-z", "--full-tree", tree)


def holds(checkout: Checkout, commit: str, path: str) -> bool:
    """Whether a commit has a file or directory of this name. Raises GitFailed."""
    wanted = path.encode("utf-8", "surrogateescape")
    return any(name == wanted for name, _ in _records(checkout, commit))


def entries_of(checkout: Checkout, tree: str) -> dict[bytes, bytes]:
    """The files of a commit or tree: path -> mode, kind and id, as `ls-tree` prints them. Raises GitFailed."""
    return {path: head for path, head in _records(checkout, tree) if not head.startswith(_TREE)}


def written_tree(checkout: Checkout, base: str, after: Mapping[bytes, bytes]) -> str:
    """Write the tree of these files, whose blobs are stored, as a change of the commit or tree `base`; its id.

    Raises GitFailed.
    """
    before = entries_of(checkout, base)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    stale = {b""} | {path[:at] for path in changed for at, byte in enumerate(path) if byte == ord("/")}
    directories: defaultdict[bytes, dict[bytes, bytes]] = defaultdict(dict)
    trees = ((path, head) for path, head in _records(checkout, base) if head.startswith(_TREE) and path not in stale)
    for path, head in (*after.items(), *trees):
        above, _, name = path.rpartition(b"/")
        if above in stale:
            directories[above][name] = head
    made: list[tuple[str, dict[bytes, bytes]]] = []
    for path in sorted(stale, key=lambda path: path.count(b"/") + bool(path), reverse=True):  # the root is the last
        if (entries := directories.pop(path, {})) or not path:
            made.append((_tree_id(entries, sha256=len(base) == 64), entries))
            above, _, name = path.rpartition(b"/")
            directories[above][name] = _TREE + made[-1][0].encode()
    feed = b"".join(b"".join(b"%s\t%s\0" % (head, name) for name, head in one.items()) + b"\0" for _, one in made)
    # missing: most entries are those of `base`, and not looked up one by one
    written = checkout.git.run("mktree", "-z", "--missing", "--batch", feed=feed).decode().split()
    if written != [tree for tree, _ in made]:
        raise GitFailed(("git", "mktree"), 1, f"it wrote {written} in place of {[tree for tree, _ in made]}")
    return written[-1]


def _tree_id(entries: Mapping[bytes, bytes], *, sha256: bool) -> str:
    """The id of a directory (git-hash-object(1)): needed in the one above before git has written it."""
    import hashlib

    def order(entry: tuple[bytes, bytes]) -> bytes:
        name, head = entry
        return name + b"/" if head.startswith(_TREE) else name

    data = b""
    for name, head in sorted(entries.items(), key=order):
        mode, _, oid = head.split(b" ")
        data += b"%s %s\0%s" % (mode.lstrip(b"0"), name, bytes.fromhex(oid.decode()))
    digest = hashlib.sha256() if sha256 else hashlib.sha1(usedforsecurity=False)
    digest.update(b"tree %d\0" % len(data) + data)
    return digest.hexdigest()


def _records(checkout: Checkout, tree: str) -> Iterator[tuple[bytes, bytes]]:
    for record in listing(checkout, tree).split(b"\0"):
        head, _, path = record.partition(b"\t")
        if path:
            yield path, head
