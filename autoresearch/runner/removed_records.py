"""The run directory, written again after `git clean` removed all records of a repository while the run lived.

A run directory that was removed alone, beside others that stay, was removed on purpose and is left so.
"""

from __future__ import annotations

import fcntl
import os

from .basics import clock, read_file, write_all

SETTLED_S = 0.5  # `git clean` is over by then: it would remove what is written again, too


class RemovedRecords:
    """What is needed to write a run directory again: its spec, its lock, and what lies beside it."""

    def __init__(self, run_dir: str) -> None:
        self.dir = run_dir
        self.spec = b""  # content of spec.json, once the launch is over
        campaign = os.path.dirname(run_dir)
        # The directory of all, and the journal of its campaign, as its controller may write while they are removed.
        # Held open, as a path or an inode number may be given again.
        self._beside = (os.path.dirname(campaign), f"{campaign}/journal.jsonl")
        self._held = [_opened(path) for path in self._beside]
        self._locks: list[int] = []
        self._gone_at = 0.0  # when the removal was seen

    def learn(self) -> None:
        """Read the spec as it is executed."""
        self.spec = read_file(f"{self.dir}/spec.json")

    def are_gone(self) -> bool:
        """Whether the run directory was removed together with what lies beside it."""
        gone = bool(self.spec) and not os.path.exists(f"{self.dir}/spec.json")
        return gone and any(map(_is_deleted, self._held))

    def settled(self) -> bool:
        """Whether they have been gone for a while."""
        self._gone_at = self._gone_at or clock()
        return clock() - self._gone_at >= SETTLED_S

    def restore(self) -> None:
        """Make the directory again, with spec and lock."""
        os.makedirs(self.dir, exist_ok=True)
        lock = os.open(f"{self.dir}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._locks.append(lock)  # held until the Runner's end
        spec = os.open(f"{self.dir}/spec.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        write_all(spec, self.spec)
        os.close(spec)
        for fd in self._held:
            if fd >= 0:
                os.close(fd)
        self._held, self._gone_at = [_opened(path) for path in self._beside], 0.0


def put_back(fd: int, path: str) -> bool:
    """Write what an open file holds to its path, if that is gone, though still written to; whether it was."""
    if fd < 0 or os.path.exists(path):
        return False
    with open(f"/proc/self/fd/{fd}", "rb") as removed, open(f"{path}.tmp", "wb") as file:
        while piece := removed.read(1 << 20):
            file.write(piece)
    os.rename(f"{path}.tmp", path)
    return True


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


def _is_deleted(fd: int) -> bool:
    """Whether what is open was removed; what was moved was not."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}").endswith(" (deleted)")
    except OSError:
        return False
