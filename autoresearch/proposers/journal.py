"""The journal file of an optimiser, kept readable: a lock that dies with its owner, and torn lines set aside."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class KernelLock:
    """Optuna's lock on its journal, freed by the kernel on any death: its own ones make a restart wait 30 s."""

    def __init__(self, path: Path) -> None:
        self._path, self._held = path, -1

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._held = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        """Give it back."""
        os.close(self._held)


def mend(journal: Path) -> None:
    """Set a torn last line aside: Optuna would write on behind it, and never read the file again."""
    if not journal.exists():
        return
    data = journal.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        free_name(journal).write_bytes(data[whole:])
        os.truncate(journal, whole)


def free_name(journal: Path) -> Path:
    """Where what is damaged may go."""
    number = 1
    while (found := journal.with_name(f"{journal.name}.damaged-{number}")).exists():
        number += 1
    return found
