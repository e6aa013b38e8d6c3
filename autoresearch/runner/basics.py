"""What every part of the Runner stands on: two clocks, whole reads and writes, values from outside."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time

TYPE_CHECKING = False  # importing typing would cost memory in every Runner
if TYPE_CHECKING:
    from typing import Any

SCHEMA = 1
RUN_ID = "AUTORESEARCH_RUN_ID"
SEAL = "AUTORESEARCH_SEAL"  # in `environment`, for the Runner alone: the key of its exit record
NEVER = float("inf")


def clock() -> float:
    """Seconds for durations and limits; no clock change moves it, and it goes on while a machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall() -> float:
    """Seconds since 1970, for stamps only."""
    return time.time()


def failpoint(name: str) -> None:
    """Die here if a fault test asked for it: AUTORESEARCH_FAILPOINT="name:kill"."""
    if os.environ.get("AUTORESEARCH_FAILPOINT") == name + ":kill":
        os.kill(os.getpid(), signal.SIGKILL)


def read_file(path: str) -> bytes:
    """All bytes of a file, b"" where it cannot be read (a process that is gone, a file not yet there)."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def write_all(fd: int, data: bytes) -> None:
    """os.write until everything is out."""
    while data:
        data = data[os.write(fd, data) :]


def open_append(path: str) -> int:
    """A descriptor that appends to a file, made if need be. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def is_locked(path: str | os.PathLike[str]) -> bool:
    """Whether a living process holds the flock of a file."""
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
    """flock, waiting so long at most: whoever only looks whether it is held holds it for microseconds himself."""
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
    """A JSON object from outside; {} for anything else."""
    try:
        value = json.loads(raw) if raw else {}  # what is missing is asked for again and again, and an exception costs
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def real(value: object) -> float | None:
    """A number from outside; None for anything else."""
    return float(value) if isinstance(value, (int, float)) else None


def positive(value: object) -> float | None:
    """A limit from outside; None where there is none."""
    number = real(value)
    return number if number is not None and number > 0 else None


def whole(value: object) -> int | None:
    """A step from outside; None for anything else, infinities and NaN too."""
    number = real(value)
    return int(number) if number is not None and abs(number) < 1e18 else None
