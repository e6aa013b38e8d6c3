"""Fatal lines: at the start of a line, after whatever Ray and a terminal put there, and nowhere else."""

from __future__ import annotations

import pytest

from autoresearch.runner.line_patterns import LogReader

HEAD = b"Traceback (most recent call last):"
BAR = "\r 30%|███       | 3/10 [00:03<00:07,  1.03s/it]".encode()
BEFORE = (b"", b"x\n", b"bar\r", b"(TaskRunner pid=5) ", b"\x1b[36m(A pid=5)\x1b[0m ", b"\x1b[31m", b"[rank17]: ")
GLUED = (b"", b" ", b"(TaskRunner pid=5) ", b"\x1b[36m(A pid=5)\x1b[0m ")
QUOTED = (b"it printed ", b"['", b"[response] ", b"'", b'say "', b"# ", b">>> ")


def hits(raw: bytes) -> int:
    return len(LogReader(()).feed(raw))


@pytest.mark.parametrize(
    ("before", "count"), [*((b, 1) for b in BEFORE), *((BAR + b, 1) for b in GLUED), *((b, 0) for b in QUOTED)]
)
def test_a_traceback(before: bytes, count: int) -> None:
    assert hits(before + HEAD + b"\n") == count


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        (b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", 1),
        (b"RuntimeError: CUDA error: out of memory\n", 1),
        (b"(1) the process was killed by the OOM killer due to high memory usage\n", 0),
        (b"how to avoid running out of memory. Tried it all\n", 0),
        (b"ray.exceptions.RayTaskError(RuntimeError): \x1b[36mray::f()\n", 1),
        (b"import ray.exceptions\n", 0),
        (b"[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)\n", 1),
        (b"nccl_timeout: 600\n", 0),
    ],
)
def test_known_words(raw: bytes, count: int) -> None:
    assert hits(raw) == count
