"""From the trainer's last instruction to somebody who knows that it is over: ours, and what is there without us.

Every trainer takes the time and exits with 3. `autoresearch wait`, as it is typed, counts until that process has
exited: with ending, exit code, metric and verdict. Beside it `tmux wait-for`, which a line behind the trainer's
command wakes and which knows nothing else; the published script, which polls every 2 s (its phase is spread evenly);
and a bare start of Python, because a process that must first be started is what an answer could cost anew. Below
`wait` is the Watcher: until a process that was blocked in it has returned; beside it a program that waits at the
trainer's pidfd, whose exit code only a parent learns.
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
from tests.bench.yard import COMMAND, Tmux, World, end_run, line_of, private_tmux, python, until

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

PIDFD = """
import os, select, sys, time
pidfd = os.pidfd_open(int(sys.argv[1]))
print("blocked", flush=True)
select.select([pidfd], [], [])
print(repr(time.monotonic()), 3)
"""


def run(repeats: int = 5) -> list[Result]:
    """Milliseconds from the trainer's exit."""
    found: dict[str, list[float]] = {way: [] for way in ("wait", "watcher", "pidfd", "wait-for", "poll", "python")}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        world = World.make(place)
        with private_tmux(place) as tmux:
            for turn in range(repeats):
                found["wait"].append(1000 * _typed(world, turn))
                found["watcher"].append(1000 * _watched(world, turn))
                found["pidfd"].append(1000 * _pidfd(place, turn))
                found["wait-for"].append(1000 * _wait_for(place, tmux, turn))
                found["poll"].append(1000 * _polled(place, tmux, turn, (turn + 0.5) / repeats * published.POLL_S))
                began = time.monotonic()
                subprocess.run([sys.executable, "-c", "pass"], check=True)
                found["python"].append(1000 * (time.monotonic() - began))
    poll = "published script polling every 2 s"
    typed = "trainer exits: `wait RUN --json` has answered, with ending, metric and verdict"
    awake = "trainer exits: a process in a Watcher is awake, and finds the exit code"
    return [
        Result(typed, "a bare start of Python", found["wait"], found["python"], 2, reached=3.7),
        Result(typed, "`tmux wait-for`", found["wait"], found["wait-for"], 5, reached=11),
        Result(typed, poll, found["wait"], found["poll"], 0.25),
        Result(awake, "a program that waits at its pidfd", found["watcher"], found["pidfd"], 10),
        Result(awake, poll, found["watcher"], found["poll"], 0.01, reached=0.0072),
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


def _watched(world: World, turn: int) -> float:
    command, gate, stamp = _trainer(world.place, f"ours{turn}")
    rundir = world.run(f"awake{turn}", command)
    seconds = _awake(python(WATCH, str(rundir.path)), gate, stamp)
    end_run(rundir)
    return seconds


def _pidfd(place: Path, turn: int) -> float:
    command, gate, stamp = _trainer(place, f"pidfd{turn}")
    with subprocess.Popen(command.split()) as trainer:
        return _awake(python(PIDFD, str(trainer.pid)), gate, stamp)


def _awake(blocked: subprocess.Popen[str], gate: Path, stamp: Path) -> float:
    """Let the trainer end beside a program that says when it was blocked, when it woke up, and the exit code."""
    with blocked:
        assert line_of(blocked) == "blocked"
        time.sleep(0.3)
        _open(gate)
        awake, code = line_of(blocked).split()
    assert code == "3", code
    return float(awake) - float(stamp.read_text())


def _wait_for(place: Path, tmux: Tmux, turn: int) -> float:
    command, gate, stamp = _trainer(place, f"channel{turn}")
    tmux("new-session", "-d", "-s", f"channel{turn}", f"{command}; tmux -S {tmux.socket} wait-for -S over{turn}")
    with subprocess.Popen(["tmux", "-S", tmux.socket, "wait-for", f"over{turn}"]) as waits:
        time.sleep(0.5)
        _open(gate)
        waits.wait()
        return time.monotonic() - float(stamp.read_text())


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
