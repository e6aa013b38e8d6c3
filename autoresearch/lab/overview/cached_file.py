"""Caches the parsed content of a small file; it is parsed again only after a change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """The result of `parse` for a file; None without the file."""

    def __init__(self, path: Path, parse: Callable[[], T | None]) -> None:
        self._path, self._parse = str(path), parse
        self._stamp: tuple[int, int, int] | None = None
        self._value: T | None = None

    def get(self) -> T | None:
        """The value for the file's present content; errors of `parse` are raised, and it is called again the
        next time.
        """
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
