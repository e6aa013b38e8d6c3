"""The Runner's sleep, interrupted by signals and by changes in the run directory."""

from __future__ import annotations

import fcntl
import os
import select
import signal

CHANGED = signal.SIGIO
_TOLD = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, CHANGED)
_IGNORED = (signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2)
_CHANGES = fcntl.DN_MODIFY | fcntl.DN_CREATE | fcntl.DN_RENAME | fcntl.DN_DELETE


class Wakeups:
    """Sleeps until a signal arrives; one of them (CHANGED) reports that a file in the run directory changed.

    It is requested with F_NOTIFY of fcntl(2). inotify would work as well, but a user has 128 instances by default,
    and two hundred Runners would leave none for the CLI's watchers or for editors.
    """

    def __init__(self, run_dir: str) -> None:
        self._signals, writer = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _TOLD:  # the wakeup pipe delivers the number; the handler itself must do nothing
            signal.signal(number, lambda *_: None)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        self._directory = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.trusted = self.watch()  # False: poll every second

    def turn_to(self, run_dir: str) -> None:
        """Watch the directory that is at this path now."""
        os.close(self._directory)
        self._directory = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.watch()

    def watch(self) -> bool:
        """Request one signal for the next change (a flood of lines is one signal). Call it before reading the files."""
        try:
            fcntl.fcntl(self._directory, fcntl.F_NOTIFY, _CHANGES)
        except OSError:  # a kernel without it
            return False
        return True

    def wait(self, timeout: float) -> bytes:
        """Sleep at most `timeout` seconds (3600 at most); returns the numbers of the received signals, in order."""
        ready = select.select([self._signals], [], [], min(max(timeout, 0.0), 3600.0))[0]
        return os.read(self._signals, 65536) if ready else b""


def no_more_wakeups() -> None:
    """Ignore SIGHUP and CHANGED before exec or exit: a late signal must not kill the process."""
    for number in (signal.SIGHUP, CHANGED):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
