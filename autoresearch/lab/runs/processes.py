"""The processes of this machine, by psutil: those of a run, what they use, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from typing import Any

import psutil

from autoresearch.launchers import gpus
from autoresearch.records.files import read_json
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.runner.basics import RUN_ID as RUN_ID

SWEEP_S = 10.0  # a process that survives KILL for so long is stuck in the kernel
SAMPLE_S = 0.1  # between the two looks that tell how busy a process is
SHELLS = frozenset(("bash", "zsh", "sh", "dash", "fish", "ksh", "tcsh", "csh", "ash"))


def sweep(run: str, grace_s: float) -> int:
    """TERM, at most SWEEP_S of grace, KILL until none is left; returns how many processes were ended."""
    found = set(carriers(run))
    _send(found, signal.SIGTERM)
    until = time.monotonic() + min(grace_s, SWEEP_S)
    while carriers(run) and time.monotonic() < until:
        time.sleep(0.05)
    until, empty = time.monotonic() + SWEEP_S, 0
    while empty < 2 and time.monotonic() < until:  # one that forks may have been missed by a single look
        left = carriers(run)
        empty = 0 if left else empty + 1
        found.update(left)
        _send(left, signal.SIGKILL)
        time.sleep(0.02)
    return len(found)


def _send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # gone, or another user's
            process.send_signal(number)


def carriers(run: str) -> list[psutil.Process]:
    """The living processes of a run. tmux servers are spared: ending one would end foreign sessions."""
    found = []
    for process in psutil.process_iter(["name", "status", "num_threads"]):
        known = process.info  # a process whose main thread alone has ended looks like a zombie
        dead = known["status"] == psutil.STATUS_ZOMBIE and (known["num_threads"] or 0) <= 1
        if process.pid != os.getpid() and not dead and not (known["name"] or "").startswith("tmux"):
            with contextlib.suppress(psutil.Error, OSError):  # gone, or it may not be read
                if process.environ().get(RUN_ID) == run:
                    found.append(process)
    return found


def is_idle_shell(pid: int) -> bool:
    """Whether it waits for a command: a shell that nobody gave a script, and that has no child."""
    try:
        process = psutil.Process(pid)
        shell, *words = process.cmdline()
        busy = any(child.status() != psutil.STATUS_ZOMBIE for child in process.children())
    except (psutil.Error, ValueError):
        return False
    name = shell.rpartition("/")[2].removeprefix("-")
    typed = all(word[:2] == "--" or (word[:1] == "-" and "c" not in word) for word in words)
    return not busy and name in SHELLS and typed


def use_of(recorded: RecordedRun) -> dict[str, Any]:
    """What a living run uses: CPU in percent of one core, resident memory, its GPUs by nvidia-smi; {} elsewhere."""
    rundir = recorded.rundir
    pid = (read_json(rundir.runner) or {}).get("pid")
    if rundir.order.exists() or not isinstance(pid, int):
        return {}
    try:
        tree = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return {}
    for process in tree:
        with contextlib.suppress(psutil.Error):
            process.cpu_percent()
    time.sleep(SAMPLE_S)
    cpu, memory = 0.0, 0
    for process in tree:
        with contextlib.suppress(psutil.Error):
            cpu, memory = cpu + process.cpu_percent(), memory + process.memory_info().rss
    return {"cpu_percent": round(cpu, 1), "memory_bytes": memory, "gpu_use": gpus.use(recorded.gpus)}


def memory_gb() -> float:
    """The memory of this machine, in 10^9 bytes."""
    return float(psutil.virtual_memory().total / 1e9)
