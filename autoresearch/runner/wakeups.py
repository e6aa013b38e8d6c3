"""Where the Runner sleeps, and what wakes it."""

from __future__ import annotations

import fcntl
import os
import select
import signal

CHANGED = signal.SIGIO
_TOLD = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, CHANGED)
_IGNORED = (signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2)
_CHANGES = fcntl.DN_MODIFY | fcntl.DN_CREATE | fcntl.DN_RENAME


class Wakeups:
    """One place to sleep: woken by signals, one of which tells that a file in the run directory changed.

    That is F_NOTIFY of fcntl(2). An inotify instance would do as well, but an account has 128 of them by
    default, and two hundred Runners would leave none to whoever watches them, nor to anybody's editor.
    """

    def __init__(self, run_dir: str) -> None:
        self._signals, writer = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _TOLD:  # its number is in the pipe; nothing may be done in a signal's own function
            signal.signal(number, lambda *_: None)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        self._directory = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.trusted = self.watch()  # False: look every second

    def watch(self) -> bool:
        """Ask to be told of the next change, once: a flood of lines is one signal. Ask first, then look."""
        try:
            fcntl.fcntl(self._directory, fcntl.F_NOTIFY, _CHANGES)
        except OSError:  # a kernel without it
            return False
        return True

    def wait(self, timeout: float) -> bytes:
        """Sleep; returns the numbers of the signals that came, in order."""
        ready = select.select([self._signals], [], [], min(max(timeout, 0.0), 3600.0))[0]
        return os.read(self._signals, 65536) if ready else b""


def no_more_wakeups() -> None:
    """Before this process becomes another program, or none: what still comes must not end it."""
    for number in (signal.SIGHUP, CHANGED):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
