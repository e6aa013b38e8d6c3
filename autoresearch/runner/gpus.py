"""GPUs: a lease on each, and whether their memory came back."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterable

from .basics import clock
from .processes import send
from .spawn import LaunchError
from .text import plain

LEASE_WAIT_S = 1.0  # the run before may be about to let go
ASK_S = 5.0
RETURN_S = 30.0
SLACK_BYTES = 64 << 20
QUESTION = ("nvidia-smi", "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits")  # MiB


class Leases:
    """One flock per GPU. The trainer inherits the descriptors: a lease outlives a Runner that was killed."""

    def __init__(self) -> None:
        self.fds: list[int] = []

    def take(self, paths: Iterable[str], run: str) -> None:
        """All or none; raises LaunchError."""
        for path in paths:
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                why = f"the GPU lease {path} cannot be opened: {error.strerror}"
                raise LaunchError("lease_failed", why) from None
            self.fds.append(fd)
            if not _locked(fd):
                holder = plain(os.pread(fd, 400, 0)) or "somebody"
                raise LaunchError("lease_busy", f"the GPU lease {path} is held by {holder}")
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"run": run, "pid": os.getpid()}).encode(), 0)

    def release(self) -> None:
        """Let go; what the trainer left alive on purpose keeps its share."""
        while self.fds:
            os.close(self.fds.pop())


def _locked(fd: int) -> bool:
    until = clock() + LEASE_WAIT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if clock() >= until:
                return False
            time.sleep(0.05)


class Gpus:
    """Memory in use on the leased GPUs, asked for in a child: a driver that hangs must not stop the limits."""

    def __init__(self, uuids: Iterable[str]) -> None:
        self.uuids = set(uuids)
        self.used: int | None = None  # the latest answer, bytes
        self.before: int | None = None
        self.peak: int | None = None
        self.returned: bool | None = None
        self.next_at = 0.0
        self._gap = 0.2
        self._pid = 0
        self._reader = -1

    def ask(self) -> None:
        """Start a question, unless one is open. It costs, so `next_at` comes less and less often."""
        if not self.uuids or self._reader >= 0:
            return
        self._gap = min(60.0, 2.0 * self._gap)
        self.next_at = clock() + self._gap
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        try:
            self._pid = os.posix_spawnp(
                QUESTION[0],
                QUESTION,
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)],
                setsigdef=[signal.SIGPIPE],
            )
        except OSError:
            pass  # not there: the pipe's end is the answer
        os.close(writer)

    def hear(self) -> bool:
        """Take the answer if there is one; True once no question is open."""
        if self._reader >= 0:
            try:
                said = os.read(self._reader, 65536).decode("utf-8", "replace")
            except BlockingIOError:
                return False
            pairs = (line.split(",") for line in said.splitlines() if line.count(",") == 1)
            known = [int(used) << 20 for uuid, used in pairs if uuid in self.uuids and used.strip().isdigit()]
            self.used = sum(known) if len(known) == len(self.uuids) else None
            self._close()
        return True

    def note_peak(self) -> None:
        """Take the latest answer, if a new one is there, as one of the run."""
        if self.hear() and self.used is not None and self.before is not None:
            self.peak = max(self.peak or 0, self.used - self.before)

    def abandon(self) -> None:
        """Give up on an open question."""
        if self._reader >= 0:
            send([self._pid], signal.SIGKILL)
            self._close()

    def _close(self) -> None:
        os.close(self._reader)
        self._reader = -1

    def measure_before(self, tick: Callable[[float], None]) -> None:
        """Memory in use before the start, to compare with afterwards. `tick`: sleep until a time."""
        self._ask_and_wait(clock() + ASK_S, tick)
        self.before = self.used

    def wait_for_return(self, tick: Callable[[float], None]) -> None:
        """Whether the memory came back, given some time: the next run needs it."""
        until = clock() + RETURN_S
        while self.before is not None and not self.returned and clock() < until:
            self._ask_and_wait(until, tick)
            if self.used is not None:
                self.returned = self.used <= self.before + SLACK_BYTES
            if not self.returned:
                tick(clock() + 0.5)

    def _ask_and_wait(self, until: float, tick: Callable[[float], None]) -> None:
        self.ask()
        while not self.hear() and clock() < until:
            tick(clock() + 0.02)
        self.abandon()
