"""End what a dead Runner left alive: every process that carries the run's id in its environment."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

VARIABLE = "AUTORESEARCH_RUN_ID"
SWEEP_S = 10.0  # a process that survives KILL for so long is in the kernel's hands


def sweep(run: str, *, grace_s: float) -> int:
    """TERM, grace, KILL until none is left; returns how many processes were ended.

    Processes are told apart by (pid, start time), so a reused pid is never hit. tmux servers are
    spared: ending one would end sessions that are not ours.
    """
    found = set(carriers(run))
    for process in found:
        _send(process, kill=False)
    _wait_until_gone(run, grace_s)
    deadline = time.monotonic() + SWEEP_S
    empty = 0
    while empty < 2 and time.monotonic() < deadline:  # in the middle of an exec a process shows no environment
        left = carriers(run)
        empty = 0 if left else empty + 1
        found.update(left)
        for process in left:
            _send(process, kill=True)
        time.sleep(0.02)
    return len(found)


def carriers(run: str) -> list[psutil.Process]:
    """The living processes of a run; zombies are dead."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.environ().get(VARIABLE) != run:
                continue
            if process.status() != psutil.STATUS_ZOMBIE and not process.name().startswith("tmux"):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _wait_until_gone(run: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while carriers(run) and time.monotonic() < deadline:
        time.sleep(0.05)


def _send(process: psutil.Process, *, kill: bool) -> None:
    import psutil

    try:
        process.kill() if kill else process.terminate()
    except psutil.Error:
        pass
