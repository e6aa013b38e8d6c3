"""Kept: a small file as it was parsed last, parsed again only when it was replaced or changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """What `parse` made of a file; None where there is no such file."""

    def __init__(self, path: Path, parse: Callable[[], T | None]) -> None:
        self._path, self._parse = str(path), parse
        self._stamp: tuple[int, int, int] | None = None
        self._value: T | None = None

    def get(self) -> T | None:
        """The value as the file has it now; what `parse` raises is raised, and asked for again the next time."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - pathlib costs five times the call
        except OSError:
            self._stamp = self._value = None
            return None
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if stamp != self._stamp:
            self._value = self._parse()
            self._stamp = stamp
        return self._value
