"""A poll of 1,000 runs at Slurm, against a poll of one: what our launcher makes of the one answer of one squeue.

The squeue is a script that prints what a real one printed. `submit`, `poll` and `stop` start Slurm's own commands and
add nothing that could be measured beside them.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from autoresearch.core.run.job_launcher import Handle
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers.slurm import SlurmLauncher
from tests.bench.result import Result

RUNS, TIMES = 1000, 5


def run(repeats: int = 5) -> list[Result]:
    """Milliseconds of this process's CPU: the start of the script is in them, what it does is not."""
    many, one = _polls(RUNS, TIMES * repeats), _polls(1, TIMES * repeats)
    what = f"slurm: CPU of a poll of {RUNS:,} runs"
    return [Result(what, "a poll of one", many, one, None, absolute=True, reached=7.5)]


def _polls(count: int, times: int) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="ar-") as folder:
        home = Path(folder)
        lines = [f"{n}|RUNNING|0|n{n % 8}|ajet_r{n}|None|autoresearch:c:r{n}" for n in range(1, count + 1)]
        (home / "rows").write_text("\n".join(lines) + "\n")
        (home / "squeue").write_text(f'#!/bin/sh\nexec cat "{home}/rows"\n')
        (home / "squeue").chmod(0o755)
        launcher = SlurmLauncher(Target("slurm", Kind.SLURM), {**os.environ, "PATH": f"{home}:{os.environ['PATH']}"})
        handles = [Handle(f"r{n}", str(n)) for n in range(1, count + 1)]
        took = []
        for _ in range(times):
            began = time.process_time()
            assert len(launcher.poll(handles)) == count
            took.append(1000 * (time.process_time() - began))
        return took
