"""Fatal lines: at the start of a line, after whatever Ray and a terminal put there, and nowhere else."""

from __future__ import annotations

import pytest

from autoresearch.core.diagnosis import log_lines
from autoresearch.core.metrics.signal import SignalPattern
from autoresearch.runner.line_patterns import LinePattern, LogReader

HEAD = b"Traceback (most recent call last):"
BAR = "\r 30%|███       | 3/10 [00:03<00:07,  1.03s/it]".encode()
BEFORE = (b"", b"x\n", b"bar\r", b"(TaskRunner pid=5) ", b"\x1b[36m(A pid=5)\x1b[0m ", b"\x1b[31m", b"[rank17]: ")
GLUED = (b"", b" ", b"(TaskRunner pid=5) ", b"\x1b[36m(A pid=5)\x1b[0m ")
QUOTED = (b"it printed ", b"['", b"[response] ", b"'", b'say "', b"# ", b">>> ")


def hits(signal: SignalPattern, raw: bytes) -> int:
    return len(LogReader([LinePattern.of(signal)]).feed(raw))


@pytest.mark.parametrize(
    ("before", "count"), [*((b, 1) for b in BEFORE), *((BAR + b, 1) for b in GLUED), *((b, 0) for b in QUOTED)]
)
def test_a_traceback(before: bytes, count: int) -> None:
    assert hits(log_lines.TRACEBACK, before + HEAD + b"\n") == count


@pytest.mark.parametrize(
    ("signal", "raw", "count"),
    [
        (log_lines.OUT_OF_MEMORY, b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", 1),
        (log_lines.OUT_OF_MEMORY, b"RuntimeError: CUDA error: out of memory\n", 1),
        (log_lines.OUT_OF_MEMORY, b"(1) the process was killed by the OOM killer due to high memory usage\n", 0),
        (log_lines.OUT_OF_MEMORY, b"how to avoid running out of memory. Tried it all\n", 0),
        (log_lines.RAY_EXCEPTION, b"ray.exceptions.RayTaskError(RuntimeError): \x1b[36mray::f()\n", 1),
        (log_lines.RAY_EXCEPTION, b"import ray.exceptions\n", 0),
        (log_lines.NCCL_TIMEOUT, b"[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)\n", 1),
        (log_lines.NCCL_TIMEOUT, b"nccl_timeout: 600\n", 0),
    ],
)
def test_known_words(signal: SignalPattern, raw: bytes, count: int) -> None:
    assert hits(signal, raw) == count
