"""Copies the file that the trainer's command sends its output to into the log, as `tee` would."""

from __future__ import annotations

import os

from .basics import clock, write_all
from .debug_log import note
from .log_follower import LogFollower


class OutputCopy:
    """Appends to the log what a file has gained since the trainer's start; what it held before is of an earlier run."""

    def __init__(self, path: str, within: list[str], log: int) -> None:
        """`within`: real directories in which the file must lie, as code in a sandbox may have made a link; []: any."""
        self.within = within
        self.log = log
        self.follower = LogFollower(path)
        try:
            self.follower.offset = os.stat(path).st_size
        except OSError:
            return
        for _ in range(2):  # opens it, and keeps its beginning: a file that is truncated and grows again is recognised
            list(self.follower.poll())

    def copy(self, until: float) -> bool:
        """Copy whole lines until this time; False if there is more."""
        for chunk in self.follower.poll():
            self._write(chunk)
            if clock() > until:
                return False
        return True

    def finish(self, until: float) -> None:
        """Copy all that is left of a trainer that has exited: of too much, only the end."""
        if not self.copy(until):
            self.follower.offset += max(0, self.follower.behind() - 4 * LogFollower.LONGEST)
            self.copy(until + 1.0)
        rest = self.follower.partial()
        self.follower.offset += len(rest)
        self._write(rest)

    def _write(self, data: bytes) -> None:
        real = self.follower.real_path()
        if self.within and not any(real.startswith(f"{place}/") for place in self.within):
            return
        if real == os.readlink(f"/proc/self/fd/{self.log}"):
            return
        try:
            write_all(self.log, data)
        except OSError as error:
            note("the trainer's output cannot be copied into the log: %s", error)
