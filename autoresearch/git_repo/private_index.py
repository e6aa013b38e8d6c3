"""A private copy of the index, so that the user's is read once and never written."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import Git

ABANDONED_S = 3600.0  # an older private index is abandoned
_PREFIX = "autoresearch-index-"


@contextlib.contextmanager
def private_index(checkout: Checkout) -> Iterator[Git]:
    """git on a copy of the user's index, outside the repository; the copy is removed at the end.

    The copy keeps the mtime: git rereads only files that are not older than the index ("racy" entries), so with a
    younger copy, a file changed within the same second would be taken for clean.
    """
    _sweep(Path(tempfile.gettempdir()))
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        index = directory / "index"
        with contextlib.suppress(FileNotFoundError):  # no index yet
            _copy(checkout.index, index)
        yield Git(checkout.root, index)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as old, target.open("wb") as new:
        status = os.fstat(old.fileno())  # of the file being copied, even if the index is replaced meanwhile
        shutil.copyfileobj(old, new, 2**20)
        new.flush()
        os.utime(new.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _sweep(directory: Path) -> None:
    """Remove private indexes whose owner was killed long ago."""
    oldest = time.time() - ABANDONED_S
    for path in directory.glob(_PREFIX + "*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                shutil.rmtree(path, ignore_errors=True)
