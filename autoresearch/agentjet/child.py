"""A child in a process group of its own: waited for without a busy loop, ended politely, its exit code passed on."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

INTERRUPT_S = 10.0  # between INT and TERM; a client that gets two signals within it ends faster
TERM_S = 10.0


class Child:
    """One command; the Runner above still owns the whole tree, and ends what this class leaves."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str], out: int | None = None) -> None:
        self._process = subprocess.Popen(
            argv, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0
        )
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)

    def ended(self, seconds: float) -> bool:
        """Sleep until it ends, at most so long; returns whether it has."""
        if self._process.returncode is None:
            select.select([self._pidfd], [], [], max(0.0, seconds))
        return self._process.poll() is not None

    @property
    def returncode(self) -> int | None:
        """As in `subprocess`: -n for signal n; None while it runs."""
        return self._process.poll()

    def send(self, number: int) -> None:
        """Signal its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def end(self, *, signalled: bool = False) -> None:
        """INT like a person at the keyboard, then TERM, then KILL. `signalled`: it got an INT a moment ago."""
        for number, seconds in ((signal.SIGINT, INTERRUPT_S), (signal.SIGTERM, TERM_S), (signal.SIGKILL, TERM_S)):
            if not signalled:  # a second INT makes many servers skip their cleanup
                self.send(number)
            signalled = False
            if self.ended(seconds):
                break
        self.send(signal.SIGKILL)  # what its leader left in the group

    def close(self) -> None:
        """Release it; a child that still runs is ended."""
        if not self.ended(0.0):
            self.end()
        os.close(self._pidfd)


def shell(command: str, cwd: str | Path, env: Mapping[str, str], out: int | None = None) -> Child:
    """`bash -c command`, as the Runner starts a trainer."""
    return Child(["bash", "-c", command], str(cwd), env, out)


class SignalRelay:
    """Records TERM, INT and HUP to this process and passes them on."""

    def __init__(self) -> None:
        self.number = 0
        self.children: list[Child] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number
        for child in self.children:
            child.send(number)


@contextlib.contextmanager
def listening_to_signals() -> Iterator[SignalRelay]:
    """Inside, signals are recorded instead of ending this process; afterwards the old handlers return."""
    relay = SignalRelay()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.signal(number, relay) for number in numbers]
    try:
        yield relay
    finally:
        for number, former in zip(numbers, before, strict=True):
            signal.signal(number, former)


def pass_on(returncode: int) -> int:
    """The exit code by which a shell tells this return code: 128 + n for signal n."""
    return returncode if returncode >= 0 else 128 - returncode


def program(name: str, run_dir: str) -> str:
    """The shell command for one of the room's own programs; `run_dir` is already quoted."""
    return f"{shlex.quote(sys.executable)} -P -m autoresearch swarm {name} {run_dir}"
