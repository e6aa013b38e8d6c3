"""Trees read and written without an index: only directories that change are written, whatever else a commit holds."""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache

from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import Git
from autoresearch.values import dataclass, field

_TREE = b"040000 tree "
_KINDS = {b"tree": 2, b"blob": 3}  # in a pack (gitformat-pack(5))


@dataclass
class NewObjects:
    """Objects that git is to store, all by one process: their ids (git-hash-object(1)) are known before."""

    sha256: bool
    made: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)

    def add(self, kind: bytes, data: bytes) -> bytes:
        """The id of one more."""
        name = self._digest(b"%s %d\0%s" % (kind, len(data), data)).hex()
        self.made[name] = (kind, data)
        return name.encode()

    def store(self, git: Git) -> None:
        """Hand them to git, as a pack. Raises GitFailed."""
        pack = [b"PACK" + struct.pack(">LL", 2, len(self.made))]
        for kind, data in self.made.values():
            byte, size = _KINDS[kind] << 4 | len(data) & 15, len(data) >> 4
            while size:
                pack.append(bytes((byte | 0x80,)))
                byte, size = size & 0x7F, size >> 7
            pack += bytes((byte,)), zlib.compress(data, 1)
        whole = b"".join(pack)
        git.run("unpack-objects", "-q", feed=whole + self._digest(whole))

    def _digest(self, data: bytes) -> bytes:
        import hashlib  # takes 3 ms to import

        return (hashlib.sha256(data) if self.sha256 else hashlib.sha1(data, usedforsecurity=False)).digest()


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


def changed_tree(
    checkout: Checkout, base: str, before: Mapping[bytes, bytes], after: Mapping[bytes, bytes], objects: NewObjects
) -> str:
    """The tree of the files `after` a change of the commit or tree `base`; its id. Directories that differ are added.

    Raises GitFailed.
    """
    changed = {path for path, _ in before.items() ^ after.items()}
    stale = {b""} | {path[:at] for path in changed for at, byte in enumerate(path) if byte == ord("/")}
    directories: defaultdict[bytes, dict[bytes, bytes]] = defaultdict(dict)
    trees = ((path, head) for path, head in _records(checkout, base) if head.startswith(_TREE) and path not in stale)
    for path, head in (*after.items(), *trees):
        above, _, name = path.rpartition(b"/")
        if above in stale:
            directories[above][name] = head
    tree = b""
    for path in sorted(stale, key=lambda path: path.count(b"/") + bool(path), reverse=True):  # the root is the last
        if (entries := directories.pop(path, {})) or not path:
            tree = objects.add(b"tree", _tree(entries))
            above, _, name = path.rpartition(b"/")
            directories[above][name] = _TREE + tree
    return tree.decode()


def _tree(entries: Mapping[bytes, bytes]) -> bytes:
    """The content of a directory."""

    def order(entry: tuple[bytes, bytes]) -> bytes:
        name, head = entry
        return name + b"/" if head.startswith(_TREE) else name

    data = b""
    for name, head in sorted(entries.items(), key=order):
        mode, _, oid = head.split(b" ")
        data += b"%s %s\0%s" % (mode.lstrip(b"0"), name, bytes.fromhex(oid.decode()))
    return data


def _records(checkout: Checkout, tree: str) -> Iterator[tuple[bytes, bytes]]:
    for record in listing(checkout, tree).split(b"\0"):
        head, _, path = record.partition(b"\t")
        if path:
            yield path, head
