"""The kernel's log as evidence of what ended a Runner: its words only, and only about the process that is meant."""

from __future__ import annotations

import pytest

from autoresearch.lab.runs.record_lost import says_killed

# as /dev/kmsg gives it, after a process was killed by a memory limit of its cgroup
KILLED = (
    b"3,1207,8123000000,-;Memory cgroup out of memory: Killed process 4242 (python3) total-vm:107084kB, "
    b"anon-rss:64512kB, file-rss:5376kB, shmem-rss:0kB, UID:0 pgtables:224kB oom_score_adj:0\n"
)


@pytest.mark.parametrize(
    ("record", "pid", "since", "is_so"),
    [
        (KILLED, 4242, 8000.0, True),
        (KILLED, 424, 8000.0, False),
        (KILLED, 4242, 8124.0, False),  # the process id was another's then
        (KILLED.replace(b"3,", b"11,", 1), 4242, 8000.0, False),  # written by a program: facility 1
        (KILLED.replace(b"-;", b"-,caller=T4242;"), 4242, 8000.0, True),
        (b" SUBSYSTEM=pci\n", 4242, 0.0, False),
    ],
)
def test_it_says_of_one_process_that_it_was_killed(record: bytes, pid: int, since: float, is_so: bool) -> None:
    assert says_killed([b"6,1,0,-;Linux version 6.1.0\n", record], pid, since) is is_so
