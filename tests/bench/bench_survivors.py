"""What is left alive of a tree of ten kinds of stubborn processes, a moment after it was ended.

Ours: through the Runner, by a stop request and by `max_time` in turn, counted when the exit record is there.
Theirs: `tmux kill-session`, and psutil's documented recipe (terminate all children, wait, kill), each counted
after as long as ours took and not less than two seconds.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from tests.bench.result import Result
from tests.bench.yard import Tmux, World, ask_to_stop, kill, private_tmux, processes_with, until

TREE = Path(__file__).parents[1] / "nasty" / "tree.py"
PATIENCE_S = 2.0
LOOKS = 8  # one kind is a new process fifty times a second: a single look may miss it


def run(repeats: int = 5) -> list[Result]:
    """Processes that are left."""
    left: tuple[list[float], list[float], list[float]] = ([], [], [])
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        world = World.make(place)
        with private_tmux(place) as tmux:
            for turn in range(repeats):
                left[0].append(_counted(lambda token, n=turn: _ours(world, token, n)))  # type: ignore[misc]
                left[1].append(_counted(lambda token: _tmux(tmux, token)))
                left[2].append(_counted(_psutil))
    what = "survivors of a tree of ten stubborn kinds, ended by stop and by max_time"
    return [
        Result(what, "`tmux kill-session`", left[0], left[1], 0, "", absolute=True, worst=True),
        Result(what, "psutil: children, terminate, wait, kill", left[0], left[2], 0, "", absolute=True, worst=True),
    ]


def _counted(end: Callable[[str], None]) -> float:
    """Start and end a tree; how many processes carry its token afterwards. They are ended then, by pid."""
    token = f"nasty-{uuid.uuid4().hex}"
    try:
        end(token)
        most = 0
        for _ in range(LOOKS):
            most = max(most, len(_alive(token)))
            time.sleep(0.02)
        return most
    finally:
        calm = 0
        while calm < LOOKS:
            found = _alive(token)
            for pid in found:
                kill(pid)
            calm = 0 if found else calm + 1


def _alive(token: str) -> list[int]:
    return processes_with(f"\0{token}\0", "cmdline")


def _up(log: Callable[[], str]) -> None:
    until(lambda: "tree up" in log(), pause=0.02)


def _ours(world: World, token: str, turn: int) -> None:
    command = f"exec {sys.executable} -S {TREE} {token}"
    by_limit = turn % 2 == 1
    rundir = world.run(f"tree{turn}", command, grace="1s", **({"max_time": "4s"} if by_limit else {}))
    _up(lambda: rundir.log.read_text() if rundir.log.exists() else "")
    if not by_limit:
        ask_to_stop(rundir)
    until(rundir.exit_record.exists)
    assert ('"max_time"' if by_limit else '"stopped"') in rundir.exit_record.read_text()


def _tmux(tmux: Tmux, token: str) -> None:
    tmux("new-session", "-d", "-s", "keeper", "sleep 600")
    tmux("new-session", "-d", "-s", "tree", "-x", "200", f"{sys.executable} -S {TREE} {token}")
    _up(lambda: tmux("capture-pane", "-p", "-t", "=tree:"))
    tmux("kill-session", "-t", "=tree")
    time.sleep(PATIENCE_S)


def _psutil(token: str) -> None:
    import psutil

    argv = [sys.executable, "-S", str(TREE), token]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert "tree up" in process.stdout.readline()
        root = psutil.Process(process.pid)
        family = [*root.children(recursive=True), root]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.terminate()
        _, alive = psutil.wait_procs(family, timeout=1)
        for member in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(alive, timeout=1)
        time.sleep(PATIENCE_S - 1)
