"""The processes of this machine, by psutil: those of a run, what they use, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from autoresearch.core.run.spec import RunSpec
from autoresearch.core.text.regex import later
from autoresearch.launchers import gpus
from autoresearch.records.hostile import read_plain
from autoresearch.records.rundir import RunDir, read_json
from autoresearch.runner.basics import RUN_ID as RUN_ID

SWEEP_S = 10.0  # a process that survives KILL for so long is stuck in the kernel
MARK = "ScriptHash"  # what AgentJet gives every daemon: ajet/utils/smart_daemon.py of modelscope/AgentJet at d20cce0e
CLOCK_S = 2.0  # start times have the resolution of a tick, and the clock may have been set meanwhile
SAMPLE_S = 0.1  # between the two looks that tell how busy a process is
SHELLS = frozenset(("bash", "zsh", "sh", "dash", "fish", "ksh", "tcsh", "csh", "ash"))

_WRITTEN_DOWN = later(r"(?:^|\.)(?P<mark>[0-9a-f]{8})\.(?P<host>.+)\.[a-z]+\Z")


def sweep(run: str, grace_s: float) -> int:
    """TERM, at most SWEEP_S of grace, KILL until none is left; returns how many processes were ended."""
    return _end(lambda: carriers(run), min(grace_s, SWEEP_S))


def sweep_companions(files: Iterable[Path], run: str, since: float, *, grace_s: float) -> int:
    """The same for daemons recorded in files `*.HASH.HOST.*`, each with the number of a process group.

    since: wall time of the run's start; older files and processes belong to others. So does a process that carries, or
    has an ancestor that carries, the id of another run. Reused group numbers are not hit.
    """
    marks, groups = set(), dict[int, float]()
    for path in files:
        name = _WRITTEN_DOWN.search(path.name)
        with contextlib.suppress(OSError, ValueError):
            written = path.stat().st_mtime
            if name and name["host"] == os.uname().nodename and written >= since - CLOCK_S:
                marks.add(name["mark"])
                groups[int(read_plain(path, 64))] = written
    return _end(lambda: _daemons(marks, groups, run, since), grace_s) if marks else 0


def _end(living: Callable[[], list[psutil.Process]], grace_s: float) -> int:
    found = set(living())
    _send(found, signal.SIGTERM)
    until = time.monotonic() + grace_s
    while living() and time.monotonic() < until:
        time.sleep(0.05)
    until, empty = time.monotonic() + SWEEP_S, 0
    while empty < 2 and time.monotonic() < until:  # one that forks may have been missed by a single look
        left = living()
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
    return [process for process in _others() if _variable(process, RUN_ID) == run]


def _others() -> Iterator[psutil.Process]:
    """The living processes but this one and tmux's."""
    for process in psutil.process_iter(["name", "status", "num_threads"]):
        found = process.info  # a process whose main thread alone has ended looks like a zombie
        dead = found["status"] == psutil.STATUS_ZOMBIE and (found["num_threads"] or 0) <= 1
        if process.pid != os.getpid() and not dead and not (found["name"] or "").startswith("tmux"):
            yield process


def _variable(process: psutil.Process, name: str) -> str:
    """A variable of its environment; "" if there is none or it may not be read."""
    try:
        return process.environ().get(name, "")
    except (psutil.Error, OSError):
        return ""


def _lineage(process: psutil.Process) -> list[psutil.Process]:
    """A process and its ancestors."""
    with contextlib.suppress(psutil.Error):
        return [process, *process.parents()]
    return [process]


def _daemons(marks: set[str], groups: Mapping[int, float], run: str, since: float) -> list[psutil.Process]:
    """The living daemons that carry a mark, or existed when their group was written down, and what is below them."""
    found = set()
    for process in _others():
        with contextlib.suppress(psutil.Error, OSError):
            born, group = process.create_time(), os.getpgid(process.pid)
            if born < since - CLOCK_S:
                continue
            ours = _variable(process, MARK) in marks or born <= groups.get(group, 0.0) + CLOCK_S
            if ours and {_variable(one, RUN_ID) for one in _lineage(process)} <= {"", run}:
                found.add(process)
    return [process for process in _others() if not found.isdisjoint(_lineage(process))] if found else []


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


def use_of(rundir: RunDir, spec: RunSpec) -> dict[str, Any]:
    """What a living run uses: CPU in percent of one core, resident memory, its GPUs by nvidia-smi; {} elsewhere."""
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
    return {"cpu_percent": round(cpu, 1), "memory_bytes": memory, "gpu_use": gpus.use(spec.gpus)}


def memory_gb() -> float:
    """The memory of this machine, in 10^9 bytes."""
    return float(psutil.virtual_memory().total / 1e9)
