"""The lines of a growing file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from autoresearch.errors import EnvironmentUnusable
from autoresearch.records.hostile import open_readable

BLOCK = 1 << 18


def unreadable(path: Path, error: OSError) -> EnvironmentUnusable:
    """The error for a file that is there and cannot be read: it is no one's fault but the machine's."""
    hint = "make it readable for this user"
    return EnvironmentUnusable(f"{path} cannot be read: {error.strerror}", hint=hint, code="unreadable")


@contextlib.contextmanager
def reading(path: Path) -> Iterator[int | None]:
    """Open a file for reading: its descriptor, None if there is no such file; EnvironmentUnusable if unreadable."""
    fd = -1
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        yield fd
    except (FileNotFoundError, NotADirectoryError):
        yield None
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        if fd >= 0:
            os.close(fd)


def forwards(fd: int, start: int = 0) -> Iterator[bytes]:
    """Yield every line from byte `start` on, with its newline; the last one may be incomplete."""
    offset, rest = start, b""
    while block := os.pread(fd, BLOCK, offset):
        offset += len(block)
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def tail(path: Path, limit: int) -> bytes:
    """The last bytes of a file, from the start of a line; empty where it cannot be read."""
    try:
        with open_readable(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            data = file.read(limit) or b""
    except OSError:
        return b""
    return data if size <= limit else data[data.find(b"\n") + 1 :]
