"""When the Follower looks and polls: often while something happens, rarely while nothing does; and who wakes it.

The clock is passed in.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.run.job_launcher import Unreachable

LOAD = 20.0  # times its duration pass between two looks: one that takes a second is made every 20 s ...
COSTLY_S = 60.0  # ... but no look waits longer than this for its cost
WAKES_S = 0.1  # between two looks at the bell
TOLD_AFTER = 2  # failures in a row; a single one is not reported


@dataclass(slots=True)
class PollSchedule:
    """A repeated action, with gaps between `fastest_s` and `slowest_s`."""

    fastest_s: float
    slowest_s: float
    gap_s: float = 0.0
    at: float = 0.0  # when it is due

    def due(self, now: float) -> bool:
        return now >= self.at

    def hurry(self, now: float) -> None:
        """Something may be new: make it due as soon as the fastest gap allows."""
        self.at = min(self.at, now + self.fastest_s)

    def at_once(self) -> None:
        """Make it due now."""
        self.at = 0.0

    def done(self, now: float, *, news: bool, took_s: float = 0.0) -> None:
        """It was done and took `took_s`; `news`: it showed something new."""
        self.gap_s = self.fastest_s if news else min(max(self.gap_s, self.fastest_s) * 1.5, self.slowest_s)
        self.at = now + max(self.gap_s, min(LOAD * took_s, COSTLY_S))


@dataclass(slots=True)
class Backoff:
    """Backoff of one kind of request without an answer: 0.5 s, 1, 2 ... 30. Keeps the first time and the last error."""

    first_s: float = 0.5
    most_s: float = 30.0
    tries: int = 0
    since: float = 0.0  # by the clock that `fell` is given as `wall`
    again_at: float = 0.0  # local clock
    error: Unreachable | None = None

    def fell(self, unreachable: Unreachable, now: float, wall: float) -> None:
        """Record a failure and schedule the next try."""
        self.since = self.since if self.tries else wall
        self.tries += 1
        self.error = unreachable
        self.again_at = now + min(self.first_s * 2.0 ** min(self.tries - 1, 20), self.most_s)

    def broken(self) -> None:
        """Reset after an answer."""
        self.tries, self.since, self.again_at, self.error = 0, 0.0, 0.0, None

    def holds(self, now: float) -> bool:
        """Whether it is too early to try again."""
        return self.tries > 0 and now < self.again_at

    @property
    def reportable(self) -> bool:
        """Whether it failed often enough to be reported."""
        return self.tries >= TOLD_AFTER


class Wakeup:
    """A file that whoever orders a run, or asks one to stop, touches; on this machine or on another one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._rung = self._stamp()

    def wait(self, seconds: float) -> bool:
        """Sleep at most so many seconds; whether the file was touched since the last call."""
        until = time.monotonic() + seconds
        while (now := self._stamp()) == self._rung:
            if (left := until - time.monotonic()) <= 0:
                return False
            time.sleep(min(left, WAKES_S))
        self._rung = now
        return True

    def _stamp(self) -> int:
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return 0
