"""Whether the kernel's log reports that it killed a process for lack of memory.

Source of the format: Documentation/ABI/testing/dev-kmsg of the kernel; of the message: mm/oom_kill.c.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from autoresearch.launchers.host_sandbox_check import HOST_PIDS

_RECORD = re.compile(rb"(\d+),\d+,(\d+),[^;]*;(.*)")  # facility and level, number, microseconds since the boot


def killed_for_memory(pid: int, started: float) -> bool:
    """Whether a process that started `started` seconds after the boot (CLOCK_BOOTTIME) was killed.

    False also if the log cannot be read: it is for root, and its process ids are those of the machine.
    """
    try:
        if str(Path("/proc/self/ns/pid").readlink()) != HOST_PIDS:
            return False
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    # The log's clock stops while the machine sleeps, so it lags by at most the total time of sleep.
    slept = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    try:
        return says_killed(_records(log), pid, started - slept)
    finally:
        os.close(log)


def says_killed(records: Iterable[bytes], pid: int, since: float) -> bool:
    """The same for records as /dev/kmsg gives them; those older than `since` (seconds) are another process's."""
    words = f"Killed process {pid} (".encode()
    for record in records:
        found = _RECORD.match(record)
        # programs can write to the log too, but not as the kernel (facility 0)
        if found and int(found[1]) >> 3 == 0 and int(found[2]) >= since * 1e6 and words in found[3]:
            return True
    return False


def _records(log: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(log, 8192)
        except BrokenPipeError:  # a record was overwritten before it was read
            continue
        except OSError:  # no more records
            return
