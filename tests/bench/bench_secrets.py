"""Masking a log of 1 GB line by line, as `logs` does: with gitleaks' rules, and with our own forms alone.

BENCH_SECRETS_MB: the size of the log (default 1000).
"""

from __future__ import annotations

import contextlib
import os
import time
from unittest import mock

from autoresearch.runner import masking
from tests.bench import logs
from tests.bench.result import Result


def run(repeats: int = 5) -> list[Result]:
    """The rules may cost a tenth; the turns share the log between them."""
    lines = logs.block().decode().split("\n")
    size = float(os.environ.get("BENCH_SECRETS_MB", "1000"))
    blocks = max(1, round(1e6 * size / repeats / sum(map(len, lines))))
    ours, theirs = [], []
    for turn in range(repeats):
        for alone in (False, True) if turn % 2 else (True, False):
            (theirs if alone else ours).append(_seconds(lines, blocks, alone=alone))
    speed = size / sum(ours)
    what = f"masking {size / 1000:.2g} GB of verl and TRL output"
    return [Result(what, "the same without gitleaks' rules", ours, theirs, 1.1, "s", note=f"{speed:.1f} MB/s")]


def _seconds(lines: list[str], blocks: int, *, alone: bool) -> float:
    with mock.patch.object(masking, "_rules", return_value=()) if alone else contextlib.nullcontext():
        began = time.process_time()
        for _ in range(blocks):
            for line in lines:
                masking.mask_text(line)
        return time.process_time() - began
