"""Finds and ends all processes of a run, by what Python exposes of the kernel, and two calls that it does not."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator

from .basics import RUN_ID, clock, read_file

STUCK_S = 10.0  # processes alive this long after SIGKILL are uninterruptible: reported and left
KILL_CAP_S = 60.0
_C = ctypes.CDLL(None)


def process_control(option: int, value: int) -> None:
    """prctl(2)."""
    _C.prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def join_new_keyring() -> None:
    """Leave the session's keyring, with the keys of whoever logged in, for an empty one; see keyctl(2)."""
    number = {"x86_64": 250, "ppc64le": 271, "s390x": 280}.get(os.uname().machine, 219)
    join_session_keyring = 1
    _C.syscall(*map(ctypes.c_long, (number, join_session_keyring, 0)))  # without keyrings nothing is to be left


Table = dict[int, tuple[bytes, str, int]]


def process_table() -> Table:
    """pid -> (name, state, parent's pid) of every process."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (raw := read_file(f"/proc/{entry}/stat")):
            name, _, rest = raw.partition(b"(")[2].rpartition(b")")
            state, parent = rest.split()[:2]
            table[int(entry)] = (name, state.decode(), int(parent))
    return table


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, None if it is gone; with pid and boot id, its identity."""
    raw = read_file(f"/proc/{pid}/stat")
    return int(raw.rpartition(b")")[2].split()[19]) if raw else None


def run_id_of(pid: int) -> str:
    """The run id in a process's environment; "" if there is none or it may not be read."""
    found = (b"\0" + _environment(pid)).partition(b"\0" + RUN_ID.encode() + b"=")[2]
    return found.partition(b"\0")[0].decode("utf-8", "replace")


def _environment(pid: int) -> bytes:
    """A process's environment block; retries while it is briefly empty, in the middle of an exec."""
    for _ in range(20):
        if environment := read_file(f"/proc/{pid}/environ"):
            return environment
        if read_file(f"/proc/{pid}/cmdline"):  # its exec is complete
            return read_file(f"/proc/{pid}/environ")
        if read_file(f"/proc/{pid}/statm")[:2] in (b"", b"0 "):  # a kernel thread, a zombie, or gone
            break
        time.sleep(0.001)
    return b""


def is_dead(pid: int, state: str) -> bool:
    """Whether a process is dead: a zombie is, unless only its main thread has ended."""
    if state not in "ZXx":
        return False
    try:
        return len(os.listdir(f"/proc/{pid}/task")) <= 1
    except OSError:
        return True


def send(pids: Iterable[int], number: int) -> int:
    """Send a signal to each process; returns how many could be signalled."""
    count = 0
    for pid in pids:
        try:
            os.kill(pid, number)
            count += 1
        except OSError:
            pass  # gone, or another user's
    return count


class ProcessTree:
    """Every process that this run started. The Runner is a subreaper, so it inherits orphans.

    Spared are tmux servers and processes with another run's id, with all their descendants. A cgroup would end a fork
    bomb faster, but is writable only for root or by delegation; the walk left no survivor among ten kinds of process.
    """

    TMUX = b"tmux: server"
    SANDBOX = b"bwrap"  # never sent TERM: it forwards no signals, and everything inside it dies with it

    def __init__(self, run: str) -> None:
        self.run = run
        self.me = os.getpid()
        process_control(36, 1)  # PR_SET_CHILD_SUBREAPER
        self.kept: set[int] = set()  # left alive on purpose
        self.left: list[int] = []  # still alive after SIGKILL
        self.unsure: set[int] = set()  # processes whose children the last `glance` may have missed
        self.term_sent = 0
        self.kill_sent = 0

    def alive(self) -> list[int]:
        """Live descendants; if there are none, live processes elsewhere with this run's id (started by a daemon)."""
        table = process_table()
        return self._below(table) or [
            pid
            for pid, (_, state, _) in table.items()
            if pid != self.me and pid not in self.kept and run_id_of(pid) == self.run
            if not is_dead(pid, state) and not self._below_tmux(pid, table)
        ]

    def _below(self, table: Table) -> list[int]:
        children: dict[int, list[int]] = {}
        for pid, (_, _, parent) in table.items():
            children.setdefault(parent, []).append(pid)
        found, todo = [], [self.me]
        while todo:
            for pid in children.get(todo.pop(), ()):
                name, state, _ = table[pid]
                if name != self.TMUX and pid not in self.kept and run_id_of(pid) in ("", self.run):
                    todo.append(pid)
                    if not is_dead(pid, state):
                        found.append(pid)
        return found

    def glance(self) -> Iterator[int]:
        """Yield live descendants youngest first, each as soon as it is found, from /proc's `children` files.

        A process that keeps forking and exiting has a new pid before a scan of /proc is over, so a table misses it and
        a signal sent afterwards comes too late. `unsure` collects processes that were dead when looked at: their
        orphans may have been missed.
        """
        self.unsure = set()
        todo = [self.me]
        while todo:
            for pid in reversed(list(children_of(todo.pop()))):
                name, _, rest = read_file(f"/proc/{pid}/stat").partition(b"(")[2].rpartition(b")")
                if not rest or is_dead(pid, rest.split()[0].decode()):
                    self.unsure.add(pid)
                elif name != self.TMUX and pid not in self.kept and run_id_of(pid) in ("", self.run):
                    todo.append(pid)
                    yield pid

    def _below_tmux(self, pid: int, table: Table) -> bool:
        while pid in table and pid != self.me:
            name, _, pid = table[pid]
            if name == self.TMUX:
                return True
        return False

    def terminate(self, grace_s: float, tick: Callable[[float], None], hurry: Callable[[], bool]) -> None:
        """TERM, `grace_s` seconds of grace (cut short by `hurry`), KILL. `tick`: sleeps until a time, and reaps."""
        members = self.alive()
        table = process_table()
        asked = [pid for pid in members if pid not in table or table[pid][0] != self.SANDBOX]
        self.term_sent = send(asked, signal.SIGTERM)
        send(members, signal.SIGCONT)  # a stopped process takes no TERM
        until, pause = clock() + grace_s, 0.005
        while clock() < until and not hurry() and self._below(process_table()):
            tick(clock() + pause)
            pause = min(2 * pause, 0.1)
        self.kill(tick)

    def kill(self, tick: Callable[[float], None]) -> None:
        """Send KILL repeatedly until no process is left, or only ones that do not die; sets `left`."""
        first: dict[int, float] = {}
        doubted: set[int] = set()  # unsure twice in a row: not dead, but another user's hidden process
        until, pause = clock() + KILL_CAP_S, 0.002
        tick(clock())
        while (members := self.alive() or list(self.glance())) or self.unsure - doubted:
            doubted, now = self.unsure, clock()
            if now > until or (members and all(now - first.get(pid, now) > STUCK_S for pid in members)):
                break
            for found in (members, self.glance()):
                for pid in found:
                    self.kill_sent += pid not in first
                    first.setdefault(pid, now)
                    send([pid], signal.SIGKILL)
            tick(clock() + pause)
            pause = min(2 * pause, 0.05)
        tick(clock())  # the last process may have become a zombie only now: reap it
        self.left = sorted(members)

    def resident_bytes(self) -> int:
        """Sum of the resident sizes in bytes, by `children` files: scanning /proc is too slow for 200 Runners."""
        sizes = (read_file(f"/proc/{pid}/statm").split() for pid in self._children())
        return sum(int(size[1]) for size in sizes if size) * os.sysconf("SC_PAGESIZE")

    def wake_sandboxes(self) -> None:
        """Let bubblewrap's own processes go on: a run may stop the first one by ptrace(2), and then never ends."""
        ours = (pid for pid in self._children() if read_file(f"/proc/{pid}/comm").strip() == self.SANDBOX)
        send(ours, signal.SIGCONT)

    def _children(self) -> Iterator[int]:
        todo = [self.me]
        while todo:
            for child in children_of(todo.pop()):
                todo.append(child)
                yield child


def children_of(pid: int) -> Iterator[int]:
    """The children of a process, zombies included; none if the kernel provides no `children` files."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        for child in read_file(f"/proc/{pid}/task/{thread}/children").split():
            yield int(child)
