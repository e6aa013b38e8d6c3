"""GPU leases, and what the GPUs' memory shows: its peak, whether they were used at all, whether it was freed."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable

from .basics import NEVER, clock, take_lock
from .processes import send
from .spawn import LaunchError
from .text import plain

LEASE_WAIT_S = 1.0  # the previous run may be about to release it
ASK_S = 5.0
RETURN_S = 30.0
SLACK_BYTES = 64 << 20
UNUSED_BYTES = 16 << 20  # a CUDA context takes more than this
PAUSE_S, LONGER_S, LONGEST_S = 0.2, 0.1, 60.0  # between looks: each is longer than the one before
LOOKS = 10  # after fewer, CUDA may have started and ended between two of them
COST = 4.0  # a pause is so many times what the answer took: eight GPUs without a persistence daemon take seconds
QUESTION = ("nvidia-smi", "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits")  # MiB


class Leases:
    """One flock per GPU, or two if runs share it (see launchers/gpus.py).

    The trainer inherits the descriptors, so a lease outlives a killed Runner.
    """

    def __init__(self) -> None:
        self.fds: list[int] = []

    def take(self, paths: Iterable[str], run: str, shares: int = 1) -> None:
        """Take all leases or none, in sorted order against deadlocks; up to `shares` runs share each GPU.

        Raises LaunchError.
        """
        try:
            for path in sorted(paths):
                self._take(path, run, shares)
        except LaunchError:
            self.release()
            raise

    def _take(self, path: str, run: str, shares: int) -> None:
        fd = self._open(path)
        if not take_lock(fd, fcntl.LOCK_EX if shares == 1 else fcntl.LOCK_SH, LEASE_WAIT_S):
            holder = plain(os.pread(fd, 400, 0)) or "somebody"
            raise LaunchError("lease_busy", f"the GPU lease {path} is held by {holder}")
        if shares > 1:
            self._take_share(path, shares)
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps({"run": run, "pid": os.getpid()}).encode(), 0)

    def _take_share(self, path: str, shares: int) -> None:
        """Lock one of a GPU's shares; the caller already holds the lease itself in shared mode."""
        until = clock() + LEASE_WAIT_S
        while True:
            for number in range(1, shares + 1):
                fd = self._open(f"{path.removesuffix('.lock')}.share-{number}")
                if take_lock(fd, fcntl.LOCK_EX, 0.0):
                    return
                os.close(self.fds.pop())
            if clock() >= until:
                raise LaunchError("lease_busy", f"all {shares} shares of the GPU lease {path} are held")
            time.sleep(0.02)

    def _open(self, path: str) -> int:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            why = f"the GPU lease {path} cannot be opened: {error.strerror}"
            raise LaunchError("lease_failed", why) from None
        self.fds.append(fd)
        return fd

    def release(self) -> None:
        """Close the descriptors; processes that the trainer left alive on purpose still hold the leases."""
        while self.fds:
            os.close(self.fds.pop())


class Gpus:
    """Memory in use on the leased GPUs, in bytes; None if unknown.

    nvidia-smi runs as a child and is killed after a while, because a hanging driver must not block the Runner.
    `tick`: sleeps until a given time.
    """

    def __init__(self, uuids: Iterable[str]) -> None:
        self.uuids = set(uuids)
        self.before: int | None = None
        self.peak: int | None = None
        self.returned: bool | None = None
        self.next_at = NEVER
        self._pause = PAUSE_S
        self._looks = 0
        self._moved = self._blind = False

    @property
    def used(self) -> bool | None:
        """Whether the memory in use ever differed from what it was before the trainer; None if that is not certain.

        A process that computes on a GPU has memory there, so this sees it from inside a container, too, where
        nvidia-smi lists no processes.
        """
        return True if self._moved else None if self._blind or self._looks < LOOKS else False

    def measure_before(self, tick: Callable[[float], None]) -> None:
        """Measure the memory in use before the run."""
        self.before = self._used(tick, clock() + ASK_S)

    def start(self) -> None:
        """Begin to look: the trainer has started."""
        self.next_at = NEVER if self.before is None else clock() + self._pause

    def look(self, tick: Callable[[float], None], until: float) -> None:
        """Update peak and use. The next look comes a little later each time: a short run may not miss its peak."""
        asked = clock()
        used = self._used(tick, min(until, asked + ASK_S))
        self._pause = min(LONGEST_S, self._pause + LONGER_S)
        self.next_at = clock() + max(self._pause, COST * (clock() - asked))
        if used is None or self.before is None:
            self._blind = self._blind or clock() < until  # at its limit the run does not wait for an answer
            return
        self._looks += 1
        self._moved = self._moved or abs(used - self.before) > UNUSED_BYTES
        self.peak = max(self.peak or 0, used - self.before)

    def wait_for_return(self, tick: Callable[[float], None]) -> None:
        """Wait up to `RETURN_S` until the memory is back to the baseline, and set `returned`: the next run needs it."""
        until = clock() + RETURN_S
        while self.before is not None and not self.returned and clock() < until:
            used = self._used(tick, until)
            if used is not None:
                self.returned = used <= self.before + SLACK_BYTES
            if not self.returned:
                tick(clock() + 0.5)

    def _used(self, tick: Callable[[float], None], until: float) -> int | None:
        if not self.uuids:
            return None
        reader, writer = os.pipe()
        try:
            to_the_pipe = [(os.POSIX_SPAWN_DUP2, writer, 1)]
            pid = os.posix_spawnp(QUESTION[0], QUESTION, os.environ, file_actions=to_the_pipe)
        except OSError:
            os.close(reader)
            return None
        finally:
            os.close(writer)
        said, ended = b"", False
        while not ended:
            if select.select([reader], [], [], 0)[0]:
                chunk = os.read(reader, 65536)
                said, ended = said + chunk, not chunk  # output may arrive in several pieces
            elif clock() < until:
                tick(clock() + 0.02)
            else:
                break
        os.close(reader)
        if not ended:
            send([pid], signal.SIGKILL)
        lines = said[: said.rfind(b"\n") + 1].decode("utf-8", "replace").splitlines()
        pairs = (line.split(",") for line in lines if line.count(",") == 1)
        known = [int(used) << 20 for uuid, used in pairs if uuid in self.uuids and used.strip().isdigit()]
        return sum(known) if len(known) == len(self.uuids) else None
