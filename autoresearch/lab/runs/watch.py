"""Watch runs: sleeps until something happens, with one inotify descriptor for all of them.

Reports come at the cadence of `core.run.limits`; exits, first steps, errors and limits wake at once. A slow
poll complements inotify because events do not cross network file systems.

inotify(7) through ctypes: the kernel reports changed files, so that polling is not needed.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterable
from pathlib import Path

from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import AutoresearchError
from autoresearch.records.events import Event
from autoresearch.records.events import read as read_events
from autoresearch.records.rundir import RunDir, read_json


class Inotify:
    """One descriptor for any number of watches. Raises OSError if the kernel has none left or is not Linux."""

    MODIFY = 0x2
    MOVED_TO = 0x80
    CREATE = 0x100

    def __init__(self) -> None:
        from autoresearch.runner.libc import function  # a `wait` that does not sleep needs none

        try:
            self._add = function("inotify_add_watch", "i", "izL")
            self.fd = function("inotify_init1", "i", "i")(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError as error:
            raise OSError("this system has no inotify") from error
        if self.fd < 0:
            raise OSError("no inotify descriptor is left")

    def add(self, path: Path, mask: int) -> None:
        """Watch a file or a directory. FileNotFoundError without it, OSError if no watch is left."""
        path.stat()
        if self._add(self.fd, os.fsencode(path), mask) < 0:
            raise OSError("no inotify watch is left")

    def drain(self) -> None:
        """Take all pending events."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 1 << 16)


POLL_S = 30.0  # with inotify; only catches what a network file system hides
BLIND_POLL_S = 1.0  # without it
SHORT_S = 2.0  # of sleep, in which nothing is made ready
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
    """Wakes when the events of any of its runs grow, its exit record appears, or its Runner dies."""

    def __init__(self, rundirs: Iterable[RunDir]) -> None:
        self.rundirs = list(rundirs)
        self._poll = select.poll()
        self._runners: dict[int, RunDir] = {}  # pidfd -> run
        self._unborn: set[Path] = set()  # runs whose Runner has not reported yet
        self._dead: list[RunDir] = []
        self._paths = {r.path: (str(r.events), str(r.exit_record)) for r in self.rundirs}
        self._inotify: Inotify | None = None
        with contextlib.suppress(OSError):  # an account has 128 of them by default, and editors use them
            self._inotify = Inotify()
        self._seen = {r.path: self._look(r) for r in self.rundirs}
        if self._inotify:
            self._poll.register(self._inotify.fd, select.POLLIN)
        for rundir in self.rundirs:
            self._watch(rundir)

    def _watch(self, rundir: RunDir) -> None:
        """Register with the kernel; files that do not exist yet are registered when the directory changes."""
        self._unborn.discard(rundir.path)
        if not (self._watch_files(rundir) and self._watch_runner(rundir)):
            self._unborn.add(rundir.path)

    def _watch_files(self, rundir: RunDir) -> bool:
        if self._inotify is None:
            return True
        try:
            self._inotify.add(rundir.path, Inotify.MOVED_TO | Inotify.CREATE)
            # events.jsonl by itself: watching writes in the directory would also wake for every log line
            self._inotify.add(rundir.events, Inotify.MODIFY)
        except FileNotFoundError:
            return False
        except OSError:  # no more watches: poll instead
            self._poll.unregister(self._inotify.fd)
            os.close(self._inotify.fd)
            self._inotify = None
        return True

    def _watch_runner(self, rundir: RunDir) -> bool:
        """Watch the Runner by a pidfd, which reports at once if it is killed and so can write nothing."""
        if rundir.order.exists():  # its pid is another machine's
            return True
        pid = (read_json(rundir.runner) or {}).get("pid")
        if not isinstance(pid, int):
            return False
        try:
            fd = os.pidfd_open(pid)
        except OSError:  # over already, or an old kernel
            return True
        self._runners[fd] = rundir
        self._poll.register(fd, select.POLLIN)
        return True

    def _look(self, rundir: RunDir) -> tuple[int, bool]:
        """The state to compare for changes: one or two system calls, as it is read for 200 runs at once."""
        events, exit_record = self._paths[rundir.path]
        try:
            size = os.stat(events).st_size  # noqa: PTH116 - pathlib costs five times the call
        except OSError:
            size = 0
        # Without inotify it polls every second; then its event and its Runner's death announce the exit record.
        return size, self._inotify is not None and os.path.exists(exit_record)  # noqa: PTH110

    def wait(self, timeout: float) -> list[RunDir]:
        """Sleep until a run changes or `timeout` seconds pass; returns the changed runs."""
        deadline = time.monotonic() + timeout
        while True:
            changed = [r for r in self.rundirs if self._look(r) != self._seen[r.path] or r in self._dead]
            if changed:
                self._dead.clear()
                for rundir in changed:
                    self._seen[rundir.path] = self._look(rundir)
                return changed
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            self._sleep(min(left, POLL_S if self._inotify else BLIND_POLL_S))

    def _sleep(self, seconds: float) -> None:
        for fd, _ in self._poll.poll(max(1, int(seconds * 1000))):
            if self._inotify and fd == self._inotify.fd:
                self._inotify.drain()
            elif fd in self._runners:
                self._dead.append(self._forget(fd))
        for rundir in [r for r in self.rundirs if r.path in self._unborn]:
            self._watch(rundir)

    def _forget(self, fd: int) -> RunDir:
        self._poll.unregister(fd)
        os.close(fd)
        return self._runners.pop(fd)

    def close(self) -> None:
        """Free the descriptors."""
        for fd in list(self._runners):
            self._forget(fd)
        if self._inotify:
            os.close(self._inotify.fd)
            self._inotify = None

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def be_ready(spec: RunSpec) -> None:
    """Import, compile and read what the end of this run will need, while somebody sleeps who waits for that end."""
    import autoresearch.core.campaign.stop_rules
    import autoresearch.lab.results.collect
    import autoresearch.runner.event_log  # noqa: F401 - the import is what it is for
    from autoresearch.core.diagnosis.families import table
    from autoresearch.core.text.regex import compile_now
    from autoresearch.lab.campaign_report import formatting
    from autoresearch.lab.render import compile_ahead
    from autoresearch.readers import run_urls
    from autoresearch.records import journal, tsv
    from autoresearch.runner import line_patterns, text
    from autoresearch.runner.masking import mask_values
    from autoresearch.trainers import registry

    table()
    compile_now(formatting, run_urls, journal, tsv, line_patterns, text)
    mask_values(read_json(RunDir(Path(spec.run_dir)).spec))  # the end's documents hold much of it
    with contextlib.suppress(AutoresearchError):  # what is missing here, a plug-in or a template: the end tells of it
        compile_ahead("results.md.j2")
        registry.by_name(spec.trainer).reader()


def wait_for_news(
    rundir: RunDir, *, since: int, seconds: float, spec: RunSpec | None = None
) -> tuple[list[Event], int]:
    """New events that should wake a waiter, or none after `seconds`; and the next sequence number.

    An end counts only when the exit record exists, so that the woken waiter finds complete records. With its spec, a
    waiter that is to sleep for longer than SHORT_S makes ready for the end.
    """
    deadline = time.monotonic() + seconds
    if seconds <= 0:
        fresh, upto = read_events(rundir.events, since)
        return [e for e in fresh if e.event in WAKING], upto
    with Watcher([rundir]) as watcher:
        while True:
            over = not rundir.state().lives
            fresh, upto = read_events(rundir.events, since)
            news = [e for e in fresh if e.event in WAKING]
            left = deadline - time.monotonic()
            if over or news or left <= 0:
                return news, upto
            since = upto
            if spec and left > SHORT_S:
                be_ready(spec)
                spec = None
            watcher.wait(max(0.0, deadline - time.monotonic()))
