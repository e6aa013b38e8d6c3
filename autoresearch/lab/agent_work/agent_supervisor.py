"""The parent of one agent: whatever the agent starts stays below it, and dies when the turn does.

A program of its own (`python -I -S`, standard library and the Runner's parts), because a process tree can be ended for
certain only by its subreaper: an agent's tools live in sessions of their own, daemons let go of their parents and of
their environment, and the controller may be killed at any moment.

It speaks on one socket: `exit N` (as subprocess counts) or `errno N` once, to whoever started it. When that end is
closed, by will or by death, it ends all that is below it, and itself: with 0 if nothing is left.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from autoresearch.runner.basics import read_file
from autoresearch.runner.libc import join_new_keyring, process_control
from autoresearch.runner.processes import children_of

STUCK_S = 10.0  # alive so long after KILL: in the kernel's hands
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)
SANDBOX = b"bwrap\n"  # its own processes get no TERM: they would take all that is inside along, without grace
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from autoresearch.lab.agent_work.agent_supervisor import main; main()"
)


def command(line: socket.socket, grace_s: float, argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command line that runs `argv` under a supervisor, which inherits `line`. `grace_s`: between TERM and KILL."""
    root = Path(__file__).resolve().parents[3]
    return (sys.executable, "-I", "-S", "-c", _BOOT, str(root), str(line.fileno()), str(grace_s), *argv)


def main() -> None:
    """Be one: sys.argv holds the descriptor of the socket, the grace, and the command line."""
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    process_control(SUBREAPER, 1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)  # not ignored: that would be inherited
    woken, wake = os.pipe()
    for fd in (woken, wake):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    if Path(sys.argv[3]).name == "bwrap":
        join_new_keyring()
    try:
        child = os.posix_spawnp(sys.argv[3], sys.argv[3:], os.environ, setsid=True, setsigdef=[signal.SIGPIPE])
    except OSError as error:
        line.sendall(f"errno {error.errno}".encode())
        return
    _guard(child, line, woken)
    _end(float(sys.argv[2]))
    sys.exit(any(True for _ in _below()))


def _guard(child: int, line: socket.socket, woken: int) -> None:
    """Until the other end of the line is closed; everybody who dies below is buried."""
    while True:
        ready, _, _ = select.select([line.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        for pid, status in _dead():
            if pid == child:
                try:
                    line.sendall(f"exit {os.waitstatus_to_exitcode(status)}".encode())
                except OSError:  # nobody is there any more
                    return
        if line.fileno() in ready:
            return


def _dead() -> Iterator[tuple[int, int]]:
    """Those that died below, with their status."""
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found
    except ChildProcessError:
        return


def _end(grace_s: float) -> None:
    """TERM, grace, KILL until nobody is below."""
    for pid in _below():
        if read_file(f"/proc/{pid}/comm") != SANDBOX:
            _send(pid, signal.SIGTERM)
            _send(pid, signal.SIGCONT)  # a stopped process takes no TERM
    for seconds, deadly in ((grace_s, False), (STUCK_S, True)):
        until = time.monotonic() + seconds
        while any(True for _ in _below()) and time.monotonic() < until:
            for pid in _below() if deadly else ():
                _send(pid, signal.SIGKILL)
            time.sleep(0.01)
            for _ in _dead():
                pass


def _below() -> Iterator[int]:
    todo = [os.getpid()]
    while todo:
        for pid in children_of(todo.pop()):
            todo.append(pid)
            yield pid


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # gone
