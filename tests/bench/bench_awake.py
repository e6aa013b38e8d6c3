"""From the trainer's last instruction to somebody who knows that it is over: ours, and what is there without us.

Every trainer takes the time and exits with 3. `autoresearch wait`, as it is typed, counts until that process has
exited: with ending, exit code, metric and verdict. Beside it the published script, which polls every 2 s (its phase is
spread evenly), and a bare start of Python, because a process that must first be started is what an answer could cost
anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import published
from tests.bench.result import Result
from tests.bench.yard import COMMAND, Tmux, World, end_run, private_tmux, start_ms, until

TRAINER = """
import os, sys, time
with open(sys.argv[1]) as gate:
    gate.read()
with open(sys.argv[2] + ".tmp", "w") as file:
    file.write(repr(time.monotonic()))
os.rename(sys.argv[2] + ".tmp", sys.argv[2])
os._exit(3)
"""


def run(repeats: int = 5) -> list[Result]:
    """Milliseconds from the trainer's exit."""
    found: dict[str, list[float]] = {way: [] for way in ("wait", "poll", "python")}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        world = World.make(place)
        with private_tmux(place) as tmux:
            for turn in range(repeats):
                found["wait"].append(1000 * _typed(world, turn))
                found["poll"].append(1000 * _polled(place, tmux, turn, (turn + 0.5) / repeats * published.POLL_S))
                found["python"].append(start_ms())
    poll = "published script polling every 2 s"
    typed = "trainer exits: `wait RUN --json` has answered, with ending, metric and verdict"
    return [
        Result(typed, "a start of Python with argparse and json", found["wait"], found["python"], 12),
        Result(typed, poll, found["wait"], found["poll"], 0.25),
    ]


def _trainer(place: Path, name: str) -> tuple[str, Path, Path]:
    """The trainer's command line, the pipe that it waits at, and the file that holds its last moment."""
    program, gate, stamp = place / "trainer.py", place / f"{name}.gate", place / f"{name}.stamp"
    program.write_text(TRAINER)
    os.mkfifo(gate)
    return f"{sys.executable} -S -E {program} {gate} {stamp}", gate, stamp


def _open(gate: Path) -> None:
    """Let the trainer go on to its end; it must be waiting there."""
    with gate.open("w") as pipe:
        pipe.write("go")


def _typed(world: World, turn: int) -> float:
    command, gate, stamp = _trainer(world.place, f"typed{turn}")
    rundir = world.run(f"typed{turn}", command)
    argv = [str(COMMAND), "wait", str(rundir.path), "--for", "60s", "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as wait:
        time.sleep(1.5)  # until it is blocked, whatever else the machine does
        _open(gate)
        assert wait.stdout
        answer = json.loads(wait.stdout.read())
        wait.wait()
        awake = time.monotonic()
    assert answer["state"] == "ended", answer
    assert answer["returncode"] == 3, answer
    end_run(rundir)
    return awake - float(stamp.read_text())


def _polled(place: Path, tmux: Tmux, turn: int, phase: float) -> float:
    command, gate, stamp = _trainer(place, f"theirs{turn}")
    session = f"theirs{turn}"
    published.start(tmux.socket, session, command)
    until(lambda: not published.pane_is_idle(tmux.socket, session))
    script = subprocess.Popen(published.wait_argv(tmux.socket, session, 60))
    time.sleep(0.1 + phase)
    _open(gate)
    assert script.wait() == 1
    return time.monotonic() - float(stamp.read_text())
