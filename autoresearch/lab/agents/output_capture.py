"""What a process prints, into files, up to a cap: a flood costs neither memory nor the disk."""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from autoresearch.records.rundir import write_all

CHUNK = 1 << 16


class OutputCapture:
    """Pipes and the files that they flow into; use it in a `with` statement."""

    def __init__(self, paths: Iterable[Path], most_bytes: int) -> None:
        self.flooded = False
        self._files = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600) for path in paths]
        self._left = dict.fromkeys(self._files, most_bytes)
        self._streams: list[IO[bytes]] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> OutputCapture:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for stream in self._streams:
            stream.close()
        for fd in self._files:
            os.close(fd)

    def connect(self, *streams: IO[bytes] | None) -> None:
        """The pipes, in the order of the files; from now on they are closed with this."""
        for fd, stream in zip(self._files, streams, strict=True):
            assert stream is not None
            self._streams.append(stream)
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, fd)

    def wake(self, line: socket.socket) -> None:
        """Let `wait` end at once when something is said there, too."""
        self._selector.register(line, selectors.EVENT_READ)

    def wait(self, seconds: float) -> bool:
        """Let flow what is there, or wait so long for something; whether anything came."""
        events = self._selector.select(seconds)
        for key, _ in events:
            if key.data is None:
                continue
            try:
                data = os.read(key.fd, CHUNK)
            except BlockingIOError:
                continue
            if data:
                self._keep(key.data, data)
            else:
                self._selector.unregister(key.fileobj)
        return bool(events)

    def drain(self) -> None:
        """What is left in the pipes, without waiting for somebody who still holds one of them."""
        while not self.flooded and self.wait(0):
            pass

    def _keep(self, fd: int, data: bytes) -> None:
        kept = data[: self._left[fd]]
        write_all(fd, kept)
        self._left[fd] -= len(kept)
        self.flooded = self.flooded or len(kept) < len(data)
