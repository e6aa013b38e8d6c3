"""Watch runs: sleeps until something happens to one of them.

Reports come at the cadence of `core.run.limits`; exits, first steps, errors and limits wake within LOOK_S.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from autoresearch.records.events import Event
from autoresearch.records.events import read as read_events
from autoresearch.records.rundir import RunDir, is_locked

LOOK_S = 0.2  # between two looks at the files
FIRST_LOOK_S = 0.02  # ... at first, as the end of a stop is near
WAKING = frozenset(
    {
        "first_step",
        "error",
        "nan",
        "stall",
        "limit",
        "stopping",
        "ended",
        "killed",
        "recorded",
        "lost",
        "launch_failed",
        "pending",
        "unreachable",
        "recovered",
    }
)


class Watcher:
    """Wakes when the events of any of its runs grow, its exit record appears, or its Runner starts or dies."""

    def __init__(self, rundirs: Iterable[RunDir]) -> None:
        self.rundirs = list(rundirs)
        self._paths = {r.path: (str(r.events), str(r.exit_record), str(r.lock)) for r in self.rundirs}
        self._seen = {r.path: self._look(r) for r in self.rundirs}

    def _look(self, rundir: RunDir) -> tuple[int, bool, bool]:
        """The state to compare for changes: a few system calls, as it is read for 200 runs at once."""
        events, exit_record, lock = self._paths[rundir.path]
        try:
            size = os.stat(events).st_size  # noqa: PTH116 - pathlib costs five times the call
        except OSError:
            size = 0
        return size, os.path.exists(exit_record), is_locked(lock)  # noqa: PTH110

    def wait(self, timeout: float) -> list[RunDir]:
        """Sleep until a run changes or `timeout` seconds pass; returns the changed runs."""
        deadline, pause = time.monotonic() + timeout, FIRST_LOOK_S
        while True:
            now = {r.path: self._look(r) for r in self.rundirs}
            changed = [r for r in self.rundirs if now[r.path] != self._seen[r.path]]
            self._seen = now
            left = deadline - time.monotonic()
            if changed or left <= 0:
                return changed
            time.sleep(min(left, pause))
            pause = min(1.5 * pause, LOOK_S)


def wait_for_news(rundir: RunDir, *, since: int, seconds: float) -> tuple[list[Event], int]:
    """New events that should wake a waiter, or none after `seconds`; and the next sequence number.

    An end counts only when the exit record exists, so that the woken waiter finds complete records.
    """
    deadline = time.monotonic() + seconds
    watcher = Watcher([rundir])
    while True:
        over = not rundir.state().lives
        fresh, since = read_events(rundir.events, since)
        news = [event for event in fresh if event.event in WAKING]
        left = deadline - time.monotonic()
        if over or news or left <= 0:
            return news, since
        watcher.wait(left)
