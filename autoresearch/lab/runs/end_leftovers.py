"""End what a dead Runner left alive: every process that carries the run's id in its environment.

And daemons that a trainer started and wrote down, as they may have been given an environment without it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

VARIABLE = "AUTORESEARCH_RUN_ID"
SWEEP_S = 10.0  # a process that survives KILL for so long is in the kernel's hands
MARK = "ScriptHash"  # what AgentJet gives every daemon: ajet/utils/smart_daemon.py of modelscope/AgentJet at d20cce0e
CLOCK_S = 2.0  # start times are told to a tick of a clock that may have been set meanwhile

_WRITTEN_DOWN = re.compile(r"(?:^|\.)(?P<mark>[0-9a-f]{8})\.(?P<host>.+)\.[a-z]+\Z")


def sweep(run: str, *, grace_s: float) -> int:
    """TERM, grace, KILL until none is left; returns how many processes were ended.

    Processes are told apart by (pid, start time), so a reused pid is never hit. tmux servers are
    spared: ending one would end sessions that are not ours.
    """
    return _end(lambda: carriers(run), grace_s)


def sweep_companions(files: Iterable[Path], run: str, since: float, *, grace_s: float) -> int:
    """The same for daemons that stand in files `*.HASH.HOST.*`, each with the number of a process group.

    since: wall time of the run's start; a file or a process that is older is another's. So is a process that, or
    whose parent's parent, carries the id of another run. A number that was given to somebody else since is not hit.
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
    while empty < 2 and time.monotonic() < deadline:  # in the middle of an exec a process shows no environment
        left = living()
        empty = 0 if left else empty + 1
        found.update(left)
        for process in left:
            _send(process, kill=True)
        time.sleep(0.02)
    return len(found)


def carriers(run: str) -> list[psutil.Process]:
    """The living processes of a run; zombies are dead."""
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
    """The living processes of these daemons, with all that is below them."""
    import psutil

    marks, groups = set(), dict[int, float]()
    for path in files:
        name = _WRITTEN_DOWN.search(path.name)
        if name is None or name["host"] != os.uname().nodename:
            continue
        marks.add(name["mark"])
        try:
            groups[int(path.read_text())] = path.stat().st_mtime
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
    """Whether it carries one of the marks, or was there when its group was written down."""
    born = process.create_time()
    if process.pid == os.getpid() or born < since - CLOCK_S or not _lives(process):
        return False
    if process.environ().get(MARK) in marks:
        return True
    return born <= groups.get(os.getpgid(process.pid), 0.0) + CLOCK_S


def _is_of_another(process: psutil.Process, run: str) -> bool:
    """Whether it, or one above it, carries the id of another run: its Runner is above all that is its own."""
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
