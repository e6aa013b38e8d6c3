"""inotify(7) through ctypes: the kernel reports changed files, so that polling is not needed."""

from __future__ import annotations

import os


class Inotify:
    """One descriptor for any number of watches. Raises OSError if the kernel has none left or is not Linux."""

    MODIFY = 0x2
    ATTRIB = 0x4
    MOVED_TO = 0x80
    CREATE = 0x100

    def __init__(self) -> None:
        import ctypes  # a `wait` that does not sleep needs none

        self._errno = ctypes.get_errno
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self.fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        except AttributeError as error:
            raise OSError("this system has no inotify") from error

    def add(self, path: str, mask: int) -> int:
        """Watch a file or a directory; returns the watch's number."""
        return self._checked(self._libc.inotify_add_watch(self.fd, os.fsencode(path), mask))

    def drain(self) -> bytes:
        """All pending events as bytes; empty if there is none."""
        try:
            return os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """Free the descriptor and all its watches."""
        os.close(self.fd)

    def _checked(self, result: int) -> int:
        if result < 0:
            number = self._errno()
            raise OSError(number, os.strerror(number))
        return result
