"""How much is written below some directories: a turn that fills the disk is noticed before it is full."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

ENTRY_BYTES = 4096  # what one name counts at least: empty files fill a disk, too
SLOWEST_S = 10.0  # between two walks; many are cheap, and one of a million files takes seconds
SHARE = 10  # of the time, at most 1/SHARE is spent walking


class Growth:
    """What was added since it was made. Ask `exceeded` often; it walks only where that may tell something new."""

    def __init__(self, directories: Iterable[Path], most_bytes: int) -> None:
        self._roots = _outermost(directories)
        self._free = self._free_bytes()
        self.most = min([most_bytes, *(free // 2 for free in self._free.values())])
        self._walked, self._took = 0.0, 0.0
        self._before = self._walk()

    def exceeded(self) -> bool:
        """Whether more was added than may be, or than half of what was free."""
        now = time.monotonic()
        if now - self._walked < max(0.1, SHARE * self._took):
            return False
        free = self._free_bytes()
        fell = any(free.get(device, 0) < had - self.most // 8 for device, had in self._free.items())
        if not fell and now - self._walked < SLOWEST_S:
            return False
        self._free = free
        return self._walk() - self._before > self.most

    def _walk(self) -> int:
        began = time.monotonic()
        total = sum(bytes_below(root) for root in self._roots)
        self._walked = time.monotonic()
        self._took = self._walked - began
        return total

    def _free_bytes(self) -> dict[int, int]:
        found = {}
        for root in self._roots:
            try:
                numbers = os.statvfs(root)
                found[root.stat().st_dev] = numbers.f_bavail * numbers.f_frsize
            except OSError:
                continue
        return found


def bytes_below(root: Path) -> int:
    """What the files below take on the disk, links not followed; what cannot be read counts nothing."""
    total, todo = 0, [os.fspath(root)]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    total += max(ENTRY_BYTES, entry.stat(follow_symlinks=False).st_blocks * 512)
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
        except OSError:
            continue
    return total


def _outermost(directories: Iterable[Path]) -> list[Path]:
    real = {Path(os.path.realpath(path)) for path in directories}
    return sorted(path for path in real if path.is_dir() and not real & set(path.parents))
