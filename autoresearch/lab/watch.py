"""Watch runs: asleep until something happens, one inotify descriptor for all of them.

Reports come at the cadence of `core.cadence`; exits, first steps, errors and limits wake at once. A
slow poll stands beside inotify because events do not cross network file systems.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable
from pathlib import Path

from autoresearch.lab.inotify import Inotify
from autoresearch.records.events import Event
from autoresearch.records.events import read as read_events
from autoresearch.records.rundir import RunDir

POLL_S = 30.0  # where inotify works; it only catches what a network file system hides
BLIND_POLL_S = 1.0  # where it does not
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
    }
)


class Watcher:
    """Wakes when the events of any of its runs grow or its exit record appears."""

    def __init__(self, rundirs: Iterable[RunDir]) -> None:
        self.rundirs = list(rundirs)
        self._names: dict[int, RunDir] = {}
        try:
            self._inotify: Inotify | None = Inotify()
        except OSError:
            self._inotify = None
        self._seen = {r.path: self._look(r) for r in self.rundirs}
        if self._inotify:
            for rundir in self.rundirs:
                self._watch(rundir)

    def _watch(self, rundir: RunDir) -> None:
        assert self._inotify is not None
        try:
            # events.jsonl by itself: the directory would also wake us for every line of the log
            self._names[self._inotify.add(str(rundir.events), Inotify.MODIFY)] = rundir
            self._names[self._inotify.add(str(rundir.path), Inotify.MOVED_TO)] = rundir
        except OSError:
            self._inotify.close()
            self._inotify = None

    @staticmethod
    def _look(rundir: RunDir) -> tuple[int, bool]:
        try:
            size = rundir.events.stat().st_size
        except OSError:
            size = 0
        return size, rundir.exit_record.exists()

    def wait(self, timeout: float) -> list[RunDir]:
        """Sleep until a run changes or `timeout` seconds are over; returns the runs that changed."""
        deadline = time.monotonic() + timeout
        while True:
            changed = [r for r in self.rundirs if self._look(r) != self._seen[r.path]]
            if changed:
                for rundir in changed:
                    self._seen[rundir.path] = self._look(rundir)
                return changed
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            self._sleep(min(left, POLL_S if self._inotify else BLIND_POLL_S))

    def _sleep(self, seconds: float) -> None:
        if self._inotify is None:
            time.sleep(seconds)
            return
        if select.select([self._inotify.fd], [], [], seconds)[0]:
            self._inotify.drain()

    def close(self) -> None:
        """Free the descriptor."""
        if self._inotify:
            self._inotify.close()
            self._inotify = None

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wait_for_news(rundir: RunDir, *, since: int, seconds: float) -> tuple[list[Event], int]:
    """New events that should wake somebody, or none when `seconds` are over; and the next sequence number.

    An end is news only when the exit record is there, so that whoever is woken finds the whole truth.
    """
    deadline = time.monotonic() + seconds
    with Watcher([rundir]) as watcher:
        while True:
            over = rundir.exit_record.exists()
            fresh, upto = read_events(rundir.events, since)
            news = [e for e in fresh if e.event in WAKING]
            left = deadline - time.monotonic()
            if over or news or left <= 0:
                return news, upto
            since = upto
            watcher.wait(left)


def log_size(path: Path) -> int:
    """Bytes of a log; 0 where it is missing."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
