"""Where the Runner sleeps, and what wakes it."""

from __future__ import annotations

import os
import select
import signal

from .basics import LIBC

_MODIFY, _CLOSE_WRITE, _MOVED_TO = 0x2, 0x8, 0x80  # linux/inotify.h
_TOLD = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1)
_IGNORED = (signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2)


class Wakeups:
    """One place to sleep: woken by signals, by growth of the log, and by files put into the run directory."""

    def __init__(self, run_dir: str, log: str) -> None:
        self._signals, writer = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _TOLD:  # its number is in the pipe; nothing may be done in a signal's own function
            signal.signal(number, lambda *_: None)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        self._log = log
        self._inotify = int(LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self.trusted = self._watch(run_dir, _CLOSE_WRITE | _MOVED_TO)  # False: look every second

    def _watch(self, path: str, events: int) -> bool:
        return self._inotify >= 0 and LIBC.inotify_add_watch(self._inotify, os.fsencode(path), events) >= 0

    def watch_log(self) -> None:
        """Watch the file that is the log now; again after it was replaced."""
        self.trusted = self.trusted and self._watch(self._log, _MODIFY)

    def wait(self, timeout: float, *, only_signals: bool) -> tuple[bytes, bool]:
        """Sleep; returns the numbers of the signals that came, in order, and whether a file moved."""
        files = [] if only_signals or not self.trusted else [self._inotify]
        ready = select.select([self._signals, *files], [], [], min(max(timeout, 0.0), 3600.0))[0]
        moved = self._inotify in ready and bool(os.read(self._inotify, 65536))
        return (os.read(self._signals, 65536) if self._signals in ready else b""), moved
