"""End what a dead Runner left alive: every process that carries the run's id in its environment.

Also daemons that a trainer started and wrote down, as they may have an environment without it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.records.hostile import read_plain

if TYPE_CHECKING:
    import psutil

VARIABLE = "AUTORESEARCH_RUN_ID"
SWEEP_S = 10.0  # a process that survives KILL for so long is stuck in the kernel
MARK = "ScriptHash"  # what AgentJet gives every daemon: ajet/utils/smart_daemon.py of modelscope/AgentJet at d20cce0e
CLOCK_S = 2.0  # start times have the resolution of a tick, and the clock may have been set meanwhile

_WRITTEN_DOWN = re.compile(r"(?:^|\.)(?P<mark>[0-9a-f]{8})\.(?P<host>.+)\.[a-z]+\Z")


def sweep(run: str, *, grace_s: float) -> int:
    """TERM, grace, KILL until none is left; returns how many processes were ended.

    Processes are identified by (pid, start time), so a reused pid is never hit. tmux servers are spared: ending one
    would end foreign sessions.
    """
    return _end(lambda: carriers(run), grace_s)


def end_processes(run: str, grace_s: float) -> int:
    """The same with at most SWEEP_S of grace, for those whose spec allows more."""
    return sweep(run, grace_s=min(grace_s, SWEEP_S))


def sweep_companions(files: Iterable[Path], run: str, since: float, *, grace_s: float) -> int:
    """The same for daemons recorded in files `*.HASH.HOST.*`, each with the number of a process group.

    since: wall time of the run's start; older files and processes belong to others. So does a process that carries, or
    has an ancestor that carries, the id of another run. Reused group numbers are not hit.
    """
    written = [path for path in files if _newer(path, since)]
    return _end(lambda: _written_down(written, run, since), grace_s) if written else 0


def _end(living: Callable[[], list[psutil.Process]], grace_s: float) -> int:
    found = set(living())
    for process in found:
        _send(process, kill=False)
    _wait_until_gone(living, grace_s)
    deadline = time.monotonic() + SWEEP_S
    empty = 0
    while empty < 2 and time.monotonic() < deadline:  # during an exec a process shows no environment
        left = living()
        empty = 0 if left else empty + 1
        found.update(left)
        for process in left:
            _send(process, kill=True)
        time.sleep(0.02)
    return len(found)


def carriers(run: str) -> list[psutil.Process]:
    """The living processes of a run; zombies do not count."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.environ().get(VARIABLE) != run:
                continue
            if _lives(process):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _newer(path: Path, since: float) -> bool:
    try:
        return path.stat().st_mtime >= since - CLOCK_S
    except OSError:
        return False


def _written_down(files: Iterable[Path], run: str, since: float) -> list[psutil.Process]:
    """The living processes of these daemons, with all their descendants."""
    import psutil

    marks, groups = set(), dict[int, float]()
    for path in files:
        name = _WRITTEN_DOWN.search(path.name)
        if name is None or name["host"] != os.uname().nodename:
            continue
        marks.add(name["mark"])
        try:
            groups[int(read_plain(path, 64))] = path.stat().st_mtime
        except (OSError, ValueError):
            continue
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        try:
            if _is_daemon(process, marks, groups, since) and not _is_of_another(process, run):
                found.update([process, *process.children(recursive=True)])
        except (psutil.Error, OSError):
            continue
    return [process for process in found if _lives(process)]


def _is_daemon(process: psutil.Process, marks: set[str], groups: dict[int, float], since: float) -> bool:
    """Whether it carries one of the marks, or existed when its group was written down."""
    born = process.create_time()
    if process.pid == os.getpid() or born < since - CLOCK_S or not _lives(process):
        return False
    if process.environ().get(MARK) in marks:
        return True
    return born <= groups.get(os.getpgid(process.pid), 0.0) + CLOCK_S


def _is_of_another(process: psutil.Process, run: str) -> bool:
    """Whether it or an ancestor carries the id of another run: a Runner is the ancestor of all its processes."""
    import psutil

    for one in (process, *process.parents()):
        try:
            if one.environ().get(VARIABLE, run) != run:
                return True
        except psutil.AccessDenied:  # another user's
            continue
    return False


def _lives(process: psutil.Process) -> bool:
    import psutil

    try:
        return process.status() != psutil.STATUS_ZOMBIE and not process.name().startswith("tmux")
    except psutil.Error:
        return False


def _wait_until_gone(living: Callable[[], list[psutil.Process]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while living() and time.monotonic() < deadline:
        time.sleep(0.05)


def _send(process: psutil.Process, *, kill: bool) -> None:
    import psutil

    try:
        process.kill() if kill else process.terminate()
    except psutil.Error:
        pass
