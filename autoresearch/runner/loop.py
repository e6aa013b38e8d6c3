"""The Runner's event loop: sleep, handle signals, file changes and timers, reap children."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable

from .basics import NEVER, clock, wall
from .limits_and_stops import Stopping
from .listener import Listener
from .processes import ProcessTree
from .spawn import Command, how_it_ended, spawn
from .spec import Spec
from .terminal_mirror import TerminalMirror, terminal_is_gone, tmux_server_lives

_TOLD = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1)
_IGNORED = (signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2)


class Wakeups:
    """Sleeps until a signal arrives."""

    def __init__(self) -> None:
        self._signals, writer = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _TOLD:  # the wakeup pipe delivers the number; the handler itself must do nothing
            signal.signal(number, lambda *_: None)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)

    def wait(self, timeout: float) -> bytes:
        """Sleep at most `timeout` seconds (3600 at most); returns the numbers of the received signals, in order."""
        ready = select.select([self._signals], [], [], min(max(timeout, 0.0), 3600.0))[0]
        return os.read(self._signals, 65536) if ready else b""


def no_more_wakeups() -> None:
    """Ignore SIGHUP before exec or exit: a late one must not kill the process."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)


PULSE_S = 15.0  # interval of heartbeats
PACE_S = 0.1  # between two looks at the run's files while the log grows
SILENT_PACE_S = 1.0  # ... and of a run that has long been silent
SLOWER = 1.05  # factor from one look that finds nothing to the next
SCAN_BUDGET_S = 0.03  # ... a scan that takes longer continues at the next one: bounds the CPU time in a flood of lines
HANGUP_S = 0.5  # a tmux server that is being killed takes a moment to die


class Loop:
    """The event loop and its state; `tick` is one iteration."""

    def __init__(self, run_dir: str, runner_spec: Spec, lock: int, listener: Listener, stopping: Stopping) -> None:
        self.lock = lock
        self.listener = listener
        self.stopping = stopping
        self.wakeups = Wakeups()
        self.mirror = TerminalMirror(f"{run_dir}/run.log")
        self.tree = ProcessTree(runner_spec.run)
        self.statuses: dict[int, int | None] = {}  # wait status of each started command, by pid; None: running
        self.trainer = 0
        self.started_wall = wall()
        self.ended_at = 0.0
        self.ended_wall = 0.0
        self.peak_memory = 0
        self.hurry = False  # SIGINT while already stopping: no grace period
        now = clock()
        self._pulse_at = now + PULSE_S
        self._sample_at = NEVER
        self._sample_gap = 0.2
        self._looked_at = self._look_at = now
        self._look_gap = PACE_S
        self._hangup_at = NEVER

    def start(self, command: Command, log: int, keep: Iterable[int] = ()) -> int:
        """Start a command; returns its pid. Raises LaunchError. See `spawn`."""
        pid = spawn(command, log, keep)
        self.statuses[pid] = None
        return pid

    def started_trainer(self, pid: int) -> None:
        """Register a started command as the trainer, and start its clocks."""
        self.trainer, self.started_wall = pid, wall()
        now = clock()
        self.listener.pace.start(now)
        self._sample_at = now + self._sample_gap

    def runs(self, pid: int) -> bool:
        """Whether a command started by `start` has not ended yet."""
        return self.statuses[pid] is None

    def tick(self, until: float) -> None:
        """Sleep until something happens, at the latest until `until`, and handle it."""
        timers = (self._pulse_at, self._sample_at, self._hangup_at, self.mirror.next_at)
        came = self.wakeups.wait(min(until, self._look_at, *timers) - clock())
        for number in came:
            self._take_signal(number)
        if clock() >= self._look_at:
            self._look()
        self._reap()
        self._do_what_is_due(clock())

    def _take_signal(self, number: int) -> None:
        """Handle a signal to the Runner."""
        if number == signal.SIGCHLD:  # a process ended, or whoever wrote a stop request wakes us
            self._look_at, self._look_gap = min(self._look_at, self._looked_at + PACE_S), PACE_S
        elif number == signal.SIGHUP:
            self._hangup_at = clock() + HANGUP_S
        elif number == signal.SIGUSR1:
            self.stopping.walltime_is_near()
        elif number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            self.hurry = self.hurry or (self.stopping.decision is not None and number == signal.SIGINT)
            name = signal.Signals(number).name
            self.stopping.check_file()  # a launcher may have written a stop request just before it sent the signal
            self.stopping.request(name.lower(), f"the Runner received {name}")

    def _look(self) -> None:
        """Read what is new in stop request and log."""
        self.stopping.check_file()
        pace = self.listener.pace
        printed = pace.output_at
        complete = self.listener.scan(SCAN_BUDGET_S)
        active = not complete or pace.output_at > printed or self.listener.seeks_output is not None
        self._look_gap = PACE_S if active else min(SLOWER * self._look_gap, SILENT_PACE_S)
        self._looked_at = now = clock()
        self._look_at = now + self._look_gap
        self.mirror.wake(now - PACE_S)  # it may write at once: looks are no closer than that

    def _do_what_is_due(self, now: float) -> None:
        """Run the due timers, except those of limits."""
        self.mirror.pump(now)
        if now >= self._hangup_at:
            self._hangup_at = NEVER
            if terminal_is_gone() and tmux_server_lives():
                self.stopping.request("session_killed", "the tmux session was killed")
        if now >= self._sample_at:  # more often at first, so that short runs get a value too
            self._sample_gap = min(PULSE_S, 2.0 * self._sample_gap)
            self._sample_at = now + self._sample_gap
            self.peak_memory = max(self.peak_memory, self.tree.resident_bytes())
        if now >= self._pulse_at:
            self._pulse_at = now + PULSE_S
            self.tree.wake_sandboxes()
            try:
                os.utime(self.lock)
            except OSError:
                pass  # a full or vanished file system: the flock still shows that the Runner is alive

    def _reap(self) -> None:
        """Reap ended children. Nothing else may wait for children: it would steal exit codes."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.trainer:
                self.peak_memory = max(self.peak_memory, usage.ru_maxrss * 1024)
            if pid in self.statuses:
                self.statuses[pid] = status
            if pid == self.trainer:
                self._trainer_ended(status)

    def _trainer_ended(self, status: int) -> None:
        """Record the time of the trainer's end and report it at once: the rest may take a while."""
        self.ended_at, self.ended_wall = clock(), wall()
        self.listener.scan(0.0)  # one chunk: a first step that was just printed is reported before the end
        code, number, words = how_it_ended(status)
        self.listener.event_log.emit("ended", f"the trainer {words}", returncode=code, signal=number)
