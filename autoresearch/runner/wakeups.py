"""Where the Runner sleeps, and what wakes it."""

from __future__ import annotations

import os
import select
import signal

from .basics import LIBC


class Wakeups:
    """One place to sleep: woken by signals, by growth of the log, and by files put into the run directory."""

    _MODIFY, _CLOSE_WRITE, _MOVED_TO = 0x2, 0x8, 0x80

    def __init__(self, run_dir: str, log: str) -> None:
        self._signals, writer = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, _noted)
        signal.signal(signal.SIGCHLD, _noted)
        for number in (signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        self._only_signals = select.poll()
        self._only_signals.register(self._signals, select.POLLIN)
        self._all = select.poll()
        self._all.register(self._signals, select.POLLIN)
        self._log = log
        self._inotify = self._watch(run_dir)
        self.trusted = self._inotify >= 0  # False: look every second

    def _watch(self, run_dir: str) -> int:
        try:
            fd = int(LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
            events = self._CLOSE_WRITE | self._MOVED_TO
            if fd < 0 or LIBC.inotify_add_watch(fd, os.fsencode(run_dir), events) < 0:
                return -1
        except AttributeError:  # a libc without inotify
            return -1
        self._all.register(fd, select.POLLIN)
        return fd

    def watch_log(self) -> None:
        """Watch the file that is the log now; again after it was replaced."""
        if self.trusted:
            self.trusted = LIBC.inotify_add_watch(self._inotify, os.fsencode(self._log), self._MODIFY) >= 0

    def wait(self, timeout: float, *, only_signals: bool) -> tuple[list[int], bool]:
        """Sleep; returns the signals that came, in order, and whether a file moved."""
        poll = self._only_signals if only_signals else self._all
        milliseconds = int(min(max(timeout, 0.0), 3600.0) * 1000) + 1 if timeout > 0 else 0
        ready = {fd for fd, _ in poll.poll(milliseconds)}
        moved = self._inotify in ready
        if moved:
            drain(self._inotify)
        return (list(drain(self._signals)) if self._signals in ready else []), moved


def _noted(_signal: int, _frame: object) -> None:
    """The signal's number is in the wake-up pipe; nothing may be done in a handler."""


def drain(fd: int) -> bytes:
    """What a non-blocking descriptor holds, 64 KiB at most."""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""
