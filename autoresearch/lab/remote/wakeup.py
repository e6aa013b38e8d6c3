"""Wake a Follower: whoever orders a run or asks one to stop touches a file that it watches."""

from __future__ import annotations

import select
import time
from pathlib import Path

from autoresearch.lab.runs.watch import Inotify

BLIND_S = 0.25  # poll interval of the file without inotify
SLOW_S = 2.0  # ... and with it: on a network file system another machine may touch the file


class Wakeup:
    """Sleeps until the file is touched."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._rung = self._stamp()
        self._inotify: Inotify | None = None
        try:
            self._inotify = Inotify()
            self._inotify.add(str(path), Inotify.ATTRIB | Inotify.MODIFY)
        except OSError:
            self._give_up()

    def wait(self, seconds: float) -> bool:
        """Sleep at most so many seconds; whether the file was touched since the last call."""
        until = time.monotonic() + seconds
        while not self._was_rung(max(0.0, until - time.monotonic())):
            if time.monotonic() >= until:
                return False
        return True

    def _was_rung(self, seconds: float) -> bool:
        """Sleep for a while; inotify reports every touch, the time stamp misses those within its resolution."""
        if self._inotify is None:
            time.sleep(min(seconds, BLIND_S))
        elif select.select([self._inotify.fd], [], [], min(seconds, SLOW_S))[0]:
            self._inotify.drain()
            self._rung = self._stamp()
            return True
        before, self._rung = self._rung, self._stamp()
        return before != self._rung

    def close(self) -> None:
        """Free the inotify descriptor."""
        self._give_up()

    def _stamp(self) -> int:
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return 0

    def _give_up(self) -> None:
        if self._inotify:
            self._inotify.close()
            self._inotify = None
