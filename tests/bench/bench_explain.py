"""What `explain` costs on a large log: 5 GB whose end counts, and half a GB of health checks behind the last step."""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

from autoresearch.lab.results.explain import explain_log
from autoresearch.trainers.verl import Verl
from tests.bench.result import Result

CHAT = b'(SGLangEngine pid=3302) INFO:     10.0.0.5:57752 - "GET /health HTTP/1.1" 200 OK\n'
OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def run(repeats: int = 5) -> list[Result]:
    """Seconds and megabytes."""
    with tempfile.TemporaryDirectory() as scratch:
        return _logs(Path(scratch), repeats)


def _logs(place: Path, repeats: int) -> list[Result]:
    large, chatty = place / "large.log", place / "chatty.log"
    steps = b"".join(b"step:%d - actor/pg_loss:0.1 - actor/kl_loss:0.01\n%s" % (n, CHAT * 20) for n in range(1, 400))
    with large.open("wb") as file:
        file.truncate(5_000_000_000)  # a hole: what lies before the last steps is never read
        file.seek(0, 2)
        file.write(steps + OOM)
    with chatty.open("wb") as file:
        file.write(steps + OOM)
        for _ in range(500):
            file.write(CHAT * 12_500)
    results = []
    names = {large: "explain a log of 5 GB", chatty: "explain half a GB of health checks behind the last step"}
    for log, what in names.items():
        took, grown = [], []
        for _ in range(repeats):
            before, began = _peak_mb(), time.process_time()
            cause = explain_log(log, Verl(), 8).diagnosis.cause
            took.append(time.process_time() - began)
            grown.append(_peak_mb() - before)
            assert cause is not None
            assert cause.kind == "memory"
        goal, reached = (1.0, 0.27) if log is large else (10.0, 2.0)
        results.append(Result(f"{what}: CPU", "", took, [], goal, "s", reached=reached))
        results.append(Result(f"{what}: peak memory grows by", "", grown, [], 40, "MB"))
    return results


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
