"""Find and end, by pid, the processes that the tests started.

Every process that a test starts inherits a mark in its environment. In pytest, a `Reaper` per test ends
what carries that test's mark. As a program, this file is the guard of one pytest: it waits until pytest
is dead, however it died, and then ends and removes what is still there.

    python -S -E reaper.py PYTEST_PID PARENT_PID MARK HOMES BASETEMP

PARENT_PID is the process that started pytest (make, a shell), or 0: when that dies, pytest is ended too.
Standard input says `done` if pytest came to its end by itself, so that pytest's own rules for BASETEMP
(the files of failed tests are kept) hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

MARK = "AUTORESEARCH_TEST"
RUN = "AUTORESEARCH_RUN_ID"
PATIENCE_S = 240.0  # what is ending already may take so long on a loaded machine: a collector is niced
END_S = 60.0  # ... and so long what was killed


@dataclass(frozen=True, slots=True)
class Left:
    """A process: pid and start time (clock ticks since boot) together name it for ever."""

    pid: int
    born: str
    command: str = field(compare=False)  # an exec changes it

    @property
    def is_tmux_server(self) -> bool:
        try:
            return Path(f"/proc/{self.pid}/comm").read_text().startswith("tmux: server")
        except OSError:
            return False

    def lives(self) -> bool:
        state = _state(self.pid)
        return state is not None and state[1] == self.born and state[0] not in "ZX"

    def end(self) -> None:
        if self.lives():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


@dataclass(slots=True)
class Reaper:
    """Finds and ends the processes that carry a mark that begins with `mark`, or one of the run ids."""

    mark: str
    runs: set[str] = field(default_factory=set)
    strangers: dict[int, str] = field(default_factory=dict)  # pid and start time of what was there before

    def add_runs_below(self, folder: Path) -> None:
        """Look also for the runs whose spec.json lies there: a program may have cleared its environment of our mark."""
        self.runs |= {run for spec in folder.rglob("spec.json") if (run := _run_of(spec))}

    def find(self) -> list[Left]:
        """All that lives now, tmux servers included."""
        me = os.getpid()
        found = (self._carrier(pid) for pid in _pids() if pid != me)
        return [process for process in found if process is not None]

    def sweep(self) -> list[Left]:
        """End all but tmux servers, at once; returns what it was, for a test that left it on purpose."""
        swept: list[Left] = []
        deadline = time.monotonic() + END_S
        while processes := [p for p in self.find() if not p.is_tmux_server]:
            swept += [p for p in processes if p not in swept]
            for process in processes:
                process.end()
            assert time.monotonic() < deadline, f"cannot be ended: {processes}"
            time.sleep(0.01)
        return swept

    def end_servers(self) -> bool:
        """End the tmux servers, each by its pid; whether there were any. KILL, because on TERM they linger a second."""
        deadline, any_there = time.monotonic() + END_S, False
        while servers := [p for p in self.find() if p.is_tmux_server]:
            assert time.monotonic() < deadline, f"cannot be ended: {servers}"
            any_there = True
            for server in servers:
                server.end()
            time.sleep(0.01)
        return any_there

    def left(self) -> list[Left]:
        """What is still there after some patience."""
        deadline = time.monotonic() + PATIENCE_S
        while processes := [p for p in self.find() if not p.is_tmux_server]:
            if time.monotonic() > deadline:
                return processes
            time.sleep(0.05)
        return []

    def _carrier(self, pid: int) -> Left | None:
        state = _state(pid)
        if state is None or state[0] in "ZX" or self.strangers.get(pid) == state[1]:
            return None
        place = Path(f"/proc/{pid}")
        words = [word.encode() for word in (self.mark, *self.runs)]
        deadline = time.monotonic() + 5.0
        try:
            while True:
                variables = (place / "environ").read_bytes()
                if variables and not any(word in variables for word in words):
                    return None
                environ = variables.decode(errors="replace").split("\0")
                command = (place / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
                if environ != [""] or not (place / "exe").exists() or time.monotonic() > deadline:
                    break
                if command and not (place / "environ").read_bytes():  # it has none, and its exec is over
                    break
                time.sleep(0.001)  # in the middle of an exec a process has neither for a moment
        except OSError:  # it is gone, or another user's
            return None
        state = _state(pid)
        if state is None or state[0] in "ZX" or not any(map(self._is_ours, environ)):
            return None
        return Left(pid, state[1], command)

    def _is_ours(self, variable: str) -> bool:
        name, _, value = variable.partition("=")
        return (name == MARK and value.startswith(self.mark)) or (name == RUN and value in self.runs)


def new_mark() -> str:
    """A mark for a test or a server: no other test's reaper knows it, and the guard of this pytest does."""
    return f"{_session()}-{uuid.uuid4().hex[:12]}"


def homes() -> Path | None:
    """The directory that goes with this pytest, for what needs a short path of its own; None outside of pytest."""
    return Path(tempfile.gettempdir(), f"ar-{_session()}") if _session() else None


def _session() -> str:
    return os.environ.get(MARK, "").partition("-")[0]


def living() -> dict[int, str]:
    """Pid and start time of every process."""
    return {pid: state[1] for pid in _pids() if (state := _state(pid))}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _run_of(spec: Path) -> str:
    try:
        return str(json.loads(spec.read_bytes())["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _state(pid: int) -> tuple[str, str] | None:
    """(state letter, start time), fields 3 and 22 of /proc/PID/stat."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().decode(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], fields[19]


def start_guard(mark: str, *folders: Path) -> subprocess.Popen[bytes]:
    """Start the guard of this pytest; HOMES and BASETEMP are the folders that it removes."""
    parent = os.getppid()
    hung_up = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # nohup: it is meant to outlive whoever started it
    argv = [os.getpid(), 0 if hung_up or parent == 1 else parent, mark, *folders]
    return subprocess.Popen(
        [sys.executable, "-S", "-E", __file__, *map(str, argv)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C is for pytest
        env={"PATH": os.environ.get("PATH", "")},  # no mark: it must not end itself
        cwd="/",
    )


def guard(pytest: int, parent: int, mark: str, homes: Path, basetemp: Path) -> None:
    """Wait for the end of pytest, then leave nothing of it behind."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _wait(pytest, parent)
    reaper = Reaper(mark)
    for folder in (homes, basetemp):
        reaper.add_runs_below(folder)
    reaper.sweep()
    reaper.end_servers()
    reaper.sweep()
    folders = [homes] if _says_done() else [homes, basetemp]
    for mount in _mounts():
        if any(mount.is_relative_to(folder) for folder in folders):
            subprocess.run(["umount", "-l", str(mount)], check=False)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(pytest: int, parent: int) -> None:
    """Until pytest is dead; it is ended if its parent goes first."""
    poll = select.poll()
    with contextlib.suppress(ProcessLookupError):
        of_pytest = os.pidfd_open(pytest)
        poll.register(of_pytest, select.POLLIN)
        with contextlib.suppress(ProcessLookupError):
            if parent:
                poll.register(os.pidfd_open(parent), select.POLLIN)
            if of_pytest in [descriptor for descriptor, _ in poll.poll()]:
                return
        os.kill(pytest, signal.SIGKILL)  # the parent is gone, perhaps since before this program had started
        poll.register(of_pytest, select.POLLIN)
        while of_pytest not in [descriptor for descriptor, _ in poll.poll()]:
            time.sleep(0.01)


def _says_done() -> bool:
    os.set_blocking(0, False)  # a fork of pytest that is still there holds the other end of the pipe open
    with contextlib.suppress(BlockingIOError):
        return os.read(0, 4) == b"done"
    return False


def _mounts() -> list[Path]:
    """Mount points, the innermost first."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [Path(line.split()[1]) for line in reversed(lines)]


if __name__ == "__main__":
    guard(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5]))
