"""A process that the kernel really kills because memory ran out, in a control group of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoresearch.lab.runs.record_lost import killed_for_memory

pytestmark = pytest.mark.real

EATER = "import sys; open(sys.argv[1], 'w').write('0'); kept = [bytearray(b'x' * 2**20) for _ in range(256)]"


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group (version 2 or 1) whose memory ends after 32 MiB."""
    top = Path("/sys/fs/cgroup")
    path = (top / "memory" if (top / "memory").is_dir() else top) / f"autoresearch-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error.strerror}")
    try:
        limit = next((path / name for name in ("memory.max", "memory.limit_in_bytes") if (path / name).exists()), None)
        if limit is None:
            pytest.skip("control groups here do not limit memory")
        limit.write_text(str(32 << 20))
        yield path
    finally:
        path.rmdir()


def test_the_kernel_says_whom_it_killed(group: Path) -> None:
    started = time.clock_gettime(time.CLOCK_BOOTTIME)
    with subprocess.Popen([sys.executable, "-c", EATER, str(group / "cgroup.procs")]) as eater:
        pass
    if eater.returncode == 0:
        pytest.skip("there is swap to go to")
    assert eater.returncode == -9
    try:
        Path("/dev/kmsg").open("rb").close()
    except OSError as error:
        pytest.skip(f"the kernel's log cannot be read: {error.strerror}")
    assert killed_for_memory(eater.pid, started)
    assert not killed_for_memory(eater.pid, time.clock_gettime(time.CLOCK_BOOTTIME) + 1)
    assert not killed_for_memory(os.getpid(), 0.0)
