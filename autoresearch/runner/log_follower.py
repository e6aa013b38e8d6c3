"""Follows a growing log: yields every byte once, even if the file is truncated or replaced."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator


class LogFollower:
    """Reads a growing file by (inode, offset), in chunks that end at a line's end.

    A line ends with a newline or a carriage return. `offset` is always at the start of a line, so it is the only
    state to keep; an unfinished line is read again by the next `poll`, or returned as it is by `partial`.
    Lines longer than `LONGEST` are cut. Handles truncation, replacement by another file, and holes.
    """

    CHUNK = 1 << 16  # fits in the L2 cache; larger is not faster
    LONGEST = 1 << 20
    HEAD = 64

    def __init__(self, path: str, offset: int = 0) -> None:
        self.path = path
        self.offset = offset  # of the first byte not yet yielded
        self._fd = -1
        self._inode = (0, 0)
        self._head = b""

    def poll(self) -> Iterator[bytes]:
        """Yield what was appended since, up to the end of the last line; `offset` is the end of the last chunk."""
        if self._fd >= 0:
            replaced = self._replaced()
            yield from self._chunks(to_the_end=replaced)
            if not replaced:
                return
            self.close()
        if self._open():
            yield from self._chunks(to_the_end=False)

    def partial(self) -> bytes:
        """The unfinished line at `offset`, at most `LONGEST` bytes; `offset` stays."""
        return os.pread(self._fd, self.LONGEST, self.offset) if self._fd >= 0 else b""

    def behind(self) -> int:
        """Number of bytes in the file that were not yielded yet."""
        return max(0, os.fstat(self._fd).st_size - self.offset) if self._fd >= 0 else 0

    def real_path(self) -> str:
        """Where the open file lies, whatever links lead to it; "" if none is open."""
        return os.readlink(f"/proc/self/fd/{self._fd}") if self._fd >= 0 else ""

    def close(self) -> None:
        """Close the file; the next poll reopens it and continues."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _chunks(self, *, to_the_end: bool) -> Iterator[bytes]:
        size = self.CHUNK
        while data := os.pread(self._fd, size, self.offset):
            end = data.rfind(b"\n") + 1
            end = max(end, data.rfind(b"\r", end) + 1)
            if end == 0 and len(data) == size < self.LONGEST:
                size = self.LONGEST
                continue
            if end == 0 and (len(data) == size or to_the_end):
                end = len(data)
            if end == 0:
                return
            size = self.CHUNK
            if data[0] == 0 and not data.strip(b"\0"):
                self._skip_hole(end)
                continue
            self.offset += end
            yield data if end == len(data) else data[:end]

    def _skip_hole(self, seen: int) -> None:
        """Skip zero bytes: a file truncated while being written starts with a hole, perhaps of gigabytes."""
        try:
            self.offset = max(self.offset + seen, os.lseek(self._fd, self.offset + seen, os.SEEK_DATA))
        except OSError:
            self.offset += seen

    def _open(self) -> bool:
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would wait for a writer
        except OSError:
            return False
        there = os.fstat(self._fd)
        if not stat.S_ISREG(there.st_mode):
            self.close()
            return False
        if self._inode not in ((0, 0), (there.st_dev, there.st_ino)) or there.st_size < self.offset:
            self._start_again()
        self._inode = (there.st_dev, there.st_ino)
        return True

    def _start_again(self) -> None:
        self.offset = 0
        self._head = b""

    def _replaced(self) -> bool:
        """Whether the path now names another file; a truncated file is read again from its start."""
        size = os.fstat(self._fd).st_size
        head = os.pread(self._fd, self.HEAD, 0)
        if size < self.offset or not head.startswith(self._head):  # truncated, and perhaps grown past `offset` again
            self._start_again()
        self._head = head
        try:
            there = os.stat(self.path)
        except OSError:
            return False  # renamed away: the open file may still grow
        return (there.st_dev, there.st_ino) != self._inode
