"""Helpers for every part of the Runner: two clocks, complete reads and writes, locks, parsing of untrusted values."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import time

TYPE_CHECKING = False  # importing typing would cost memory in every Runner
if TYPE_CHECKING:
    from typing import Any

SCHEMA = 1
RUN_ID = "AUTORESEARCH_RUN_ID"
NEVER = float("inf")
_passed: dict[str, int] = {}  # how often a failpoint was passed


class LaunchError(Exception):
    """The run cannot be started; args: cause (an identifier) and reason (a sentence for users)."""


def clock() -> float:
    """CLOCK_BOOTTIME in seconds, for durations and limits: immune to clock changes, and counts suspend time."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall() -> float:
    """Seconds since 1970, for time stamps only."""
    return time.time()


def failpoint(name: str) -> None:
    """Die here if a test asked for it: AUTORESEARCH_FAILPOINT="name:kill", or "name:kill:3" for the third time."""
    asked, _, times = os.environ.get("AUTORESEARCH_FAILPOINT", "").partition(":kill")
    if asked == name:
        _passed[name] = _passed.get(name, 0) + 1
        if _passed[name] >= int(times.lstrip(":") or 1):
            os.kill(os.getpid(), signal.SIGKILL)


def read_file(path: str) -> bytes:
    """All bytes of a file; b"" if it cannot be read (its process is gone, or it does not exist yet)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would wait for a writer
        with open(fd, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def write_all(fd: int, data: bytes) -> None:
    """Call os.write until all of `data` is written. Raises OSError."""
    while data:
        data = data[os.write(fd, data) :]


def open_append(path: str) -> int:
    """A descriptor that appends to a file, which is created if missing. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


class LazyPattern:
    """A regular expression that is compiled at first use: it may take milliseconds, and a process uses few of them."""

    def __init__(self, text: Any, flags: int = 0) -> None:
        self._given = (text, flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # so asks `abc` about all that a class has
            raise AttributeError(name)
        value = getattr(re.compile(*self._given), name)
        self.__dict__[name] = value  # later accesses bypass __getattr__
        return value


def is_locked(path: str | os.PathLike[str]) -> bool:
    """Whether a live process holds the exclusive flock of a file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def take_lock(fd: int, operation: int, patience_s: float) -> bool:
    """flock, waiting at most `patience_s`, because `is_locked` itself holds the lock for microseconds; True if held."""
    until = clock() + patience_s
    while True:
        try:
            fcntl.flock(fd, operation | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if clock() >= until:
                return False
            time.sleep(0.01)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parse an untrusted JSON object; {} for anything else."""
    try:
        value = json.loads(raw) if raw else {}  # missing files are polled often, and an exception is slow
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def real(value: object) -> float | None:
    """An untrusted number as a float; None for anything else."""
    return float(value) if isinstance(value, (int, float)) else None


def positive(value: object) -> float | None:
    """An untrusted limit as a positive float; None for anything else."""
    number = real(value)
    return number if number is not None and number > 0 else None


def whole(value: object) -> int | None:
    """An untrusted step number as an int; None for anything else, including infinities and NaN."""
    number = real(value)
    return int(number) if number is not None and abs(number) < 1e18 else None
