"""From the trainer's last instruction to a watcher that knows the exit code: ours, and the script that polls.

Both trainers take the time and exit with 3. Ours counts until a process that was blocked in a Watcher has
returned from it, and then finds the `ended` event with the code; theirs until the wait script has exited.
The phase of the polls is spread evenly.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import published
from tests.bench.result import Result
from tests.bench.yard import Tmux, World, end_run, line_of, private_tmux, python, until

TRAINER = """
import os, sys, time
with open(sys.argv[1]) as gate:
    gate.read()
with open(sys.argv[2] + ".tmp", "w") as file:
    file.write(repr(time.monotonic()))
os.rename(sys.argv[2] + ".tmp", sys.argv[2])
os._exit(3)
"""
WATCH = """
import sys, time
from pathlib import Path
from autoresearch.lab.runs.watch import Watcher
from autoresearch.records.events import read
from autoresearch.records.rundir import RunDir
rundir = RunDir(Path(sys.argv[1]))
with Watcher([rundir]) as watcher:
    print("blocked", flush=True)
    ended = []
    while not ended:
        watcher.wait(60)
        awake = time.monotonic()
        ended = [event for event in read(rundir.events)[0] if event.event == "ended"]
print(repr(awake), ended[0]["returncode"])
"""


def run(repeats: int = 5) -> list[Result]:
    """Milliseconds from the trainer's exit to awake."""
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        world = World.make(place)
        with private_tmux(place) as tmux:
            for turn in range(repeats):
                ours.append(1000 * _ours(world, turn))
                theirs.append(1000 * _theirs(place, tmux, turn, (turn + 0.5) / repeats * published.POLL_S))
    return [
        Result(
            "trainer exits: `ended` event with the exit code, and a watching process awake",
            "published script polling every 2 s",
            ours,
            theirs,
            0.01,
            reached=0.0072,
        )
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


def _ours(world: World, turn: int) -> float:
    command, gate, stamp = _trainer(world.place, f"ours{turn}")
    rundir = world.run(f"awake{turn}", command)
    watch = python(WATCH, str(rundir.path))
    assert line_of(watch) == "blocked"
    time.sleep(0.3)
    _open(gate)
    awake, code = line_of(watch).split()
    assert code == "3", code
    watch.wait()
    end_run(rundir)
    return float(awake) - float(stamp.read_text())


def _theirs(place: Path, tmux: Tmux, turn: int, phase: float) -> float:
    command, gate, stamp = _trainer(place, f"theirs{turn}")
    session = f"theirs{turn}"
    published.start(tmux.socket, session, command)
    until(lambda: not published.pane_is_idle(tmux.socket, session))
    script = subprocess.Popen(published.wait_argv(tmux.socket, session, 60))
    time.sleep(0.1 + phase)
    _open(gate)
    assert script.wait() == 1
    return time.monotonic() - float(stamp.read_text())
