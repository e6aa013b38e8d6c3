"""Turns the signals in the trainer's log into progress, errors and events."""

from __future__ import annotations

import contextlib
import os
import stat

from .basics import NEVER, clock, read_file, write_all
from .event_log import EventLog
from .line_patterns import LinePattern, LogReader
from .log_follower import LogFollower
from .spec import Spec
from .text import plain

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .line_patterns import LineSignal

# First-step and stall limits: the progress seen so far, and the deadlines of the next signal.

STALL_FLOOR_S = 60.0
STALL_FACTOR = 10.0


class ProgressLimits:
    """Steps, KL, and the deadlines that depend on them. All times are those of `clock`, in seconds."""

    def __init__(self, runner_spec: Spec) -> None:
        self.spec = runner_spec
        self.started = 0.0  # 0.0: the trainer has not started
        self.output_at = 0.0  # when the log last grew
        self.held = 0.0  # seconds for which the first-step clock was suspended, before the cap
        self.hold_until = 0.0
        self.first_s: float | None = None
        self.first_step: int | None = None
        self.kl: float | None = None
        self.last_step: int | None = None
        self.steps = 0
        self.nan = False
        self.last_at = 0.0
        self.last_step_at = 0.0
        self.gaps: list[float] = []
        self.stalled = False

    def start(self, now: float) -> None:
        """Note that the trainer started."""
        self.started = self.last_at = self.output_at = now

    def printed(self, now: float) -> None:
        """Note that the log grew."""
        self.output_at = now

    def step(self, now: float, step: int | None, kl: float | None) -> bool:
        """Note a training step's metrics; True if it is the first step."""
        if kl is not None and not abs(kl) < NEVER:  # infinite, or NaN
            kl = None
        self.kl = kl if self.kl is None else self.kl
        self.last_at = now
        if step is None or step != self.last_step:  # `ray job submit` prints the log's tail twice
            if self.steps:
                self.gaps = [*self.gaps[-19:], now - self.last_step_at]
            self.steps += 1
            self.last_step_at = now
            self.last_step = self.steps if step is None else step
        if self.first_s is not None or (self.spec.needs_kl and kl is None):
            return False
        self.first_s = now - self.started
        self.first_step = self.last_step
        return True

    def moved(self, now: float, hold_s: float) -> None:
        """Note progress of boot or validation: suspends the first-step clock for `hold_s` from now."""
        self.last_at = now
        if self.first_s is None and not self.spec.strict_first_step:
            more = now + hold_s - max(now, self.hold_until)
            self.held += max(0.0, more)
            self.hold_until = max(self.hold_until, now + hold_s)

    def ready(self, now: float) -> None:
        """Note that the boot is over: what is left of the present suspension is taken back."""
        self.last_at = now
        self.held -= max(0.0, self.hold_until - now)
        self.hold_until = min(self.hold_until, now)

    def first_deadline(self) -> float:
        """When the first step is too late; `NEVER` after the first step."""
        if self.first_s is not None or self.spec.first_step_s is None:
            return NEVER
        if self.spec.first_step_since_output:
            return self.output_at + self.spec.first_step_s
        return self.started + self.spec.first_step_s + min(self.held, self.spec.first_step_cap_s)

    def stall_deadline(self) -> float:
        """When a lack of signals ends the run; `NEVER` before the first step, which has its own limit."""
        if self.first_s is None or self.spec.stall_s is None:
            return NEVER
        return self.last_at + self.spec.stall_s

    def report_deadline(self) -> float:
        """When a lack of signals is reported as a stall."""
        if self.steps < 3 or self.stalled:
            return NEVER
        return self.last_at + max(STALL_FLOOR_S, STALL_FACTOR * self.median_gap())

    def next_deadline(self) -> float:
        """The earliest of the three deadlines."""
        return min(self.first_deadline(), self.stall_deadline(), self.report_deadline())

    def median_gap(self) -> float:
        """The median of the last 20 intervals between steps in seconds; 0.0 if there are none."""
        return sorted(self.gaps)[len(self.gaps) // 2] if self.gaps else 0.0


# Copies the file that the trainer's command sends its output to into the log, as `tee` would.


class OutputCopy:
    """Appends to the log what a file has gained since the trainer's start; what it held before is of an earlier run."""

    def __init__(self, path: str, within: list[str], log: int, *, fresh: bool = False) -> None:
        """`within`: real directories in which the file must lie, as code in a sandbox may have made a link; []: any.

        fresh: all that it holds is of this run.
        """
        self.within = within
        self.log = log
        self.follower = LogFollower(path)
        if fresh:
            return
        try:
            self.follower.offset = os.stat(path).st_size
        except OSError:
            return
        for _ in range(2):  # opens it, and keeps its beginning: a file that is truncated and grows again is recognised
            list(self.follower.poll())

    def copy(self, until: float) -> bool:
        """Copy whole lines until this time; False if there is more."""
        for chunk in self.follower.poll():
            self._write(chunk)
            if clock() > until:
                return False
        return True

    def finish(self, until: float) -> None:
        """Copy all that is left of a trainer that has exited: of too much, only the end."""
        if not self.copy(until):
            self.follower.offset += max(0, self.follower.behind() - 4 * LogFollower.LONGEST)
            self.copy(until + 1.0)
        rest = self.follower.partial()
        self.follower.offset += len(rest)
        self._write(rest)

    def _write(self, data: bytes) -> None:
        real = self.follower.real_path()
        if self.within and not any(real.startswith(f"{place}/") for place in self.within):
            return
        if real == os.readlink(f"/proc/self/fd/{self.log}"):
            return
        try:
            write_all(self.log, data)
        except OSError:
            pass  # a full disk; the trainer has its own file


ITS_PROCESS = "?"
FINAL_SCAN_S = 10.0  # time limit for the final scan; beyond it, only the log's end is scanned


class Listener:
    """Reads what is new in the log, and updates `pace` and `event_log`."""

    def __init__(self, run_dir: str, runner_spec: Spec, event_log: EventLog) -> None:
        self.spec = runner_spec
        self.event_log = event_log
        self.pace = ProgressLimits(runner_spec)
        self.follower = LogFollower(f"{run_dir}/run.log")
        self.output: OutputCopy | None = None  # of a command that sends its output elsewhere
        self.seeks_output: Callable[[], None] | None = None  # while only a process of it can tell where
        self.reader = LogReader((), runner_spec.metric_names, finds=runner_spec.finds_steps)
        self._summary = ""
        self.error: dict[str, str] = {}  # the first error, or the first with an `error_kind`
        self._unfinished = 0  # bytes of the unfinished last line
        self._rest = b""  # what of it was read at a limit

    def learn(self) -> None:
        """Compile the patterns. Raises re.error for an invalid one."""
        patterns = [LinePattern(**signal) for signal in self.spec.signals]
        self.reader = LogReader(patterns, self.spec.metric_names, finds=self.spec.finds_steps)

    def copy_to(self, log: int, members: Callable[[], Iterable[int]]) -> None:
        """From now on, copy the trainer's output into the log, if its command sends it into a file.

        `members`: the trainer's processes, one of which has that file open where its name is not known (`$(date)`).
        """
        if self.spec.output == ITS_PROCESS:
            self.seeks_output = lambda: self._seek_output(log, members())
        elif self.spec.output:
            self.output = OutputCopy(self.spec.output, self.spec.within, log)

    def _seek_output(self, log: int, members: Iterable[int]) -> None:
        own = os.fstat(log)
        for pid in members:
            with contextlib.suppress(OSError):  # it has just ended
                file = os.stat(f"/proc/{pid}/fd/1")
                if stat.S_ISREG(file.st_mode) and not os.path.samestat(file, own):
                    flags = int(read_file(f"/proc/{pid}/fdinfo/1").split(b"flags:")[1].split()[0], 8)
                    path = os.readlink(f"/proc/{pid}/fd/1")
                    self.output = OutputCopy(path, self.spec.within, log, fresh=not flags & os.O_APPEND)
                    self.seeks_output = None
                    return

    def scan(self, budget: float) -> bool:
        """Scan what is new in the log for about `budget` seconds at most; False if there is more."""
        until = clock() + budget
        if self.seeks_output is not None:
            self.seeks_output()
        copied = self.output is None or self.output.copy(until)
        for chunk in self.follower.poll():
            self.pace.printed(clock())
            self._take(self.reader.feed(chunk, clock()))
            if clock() > until:
                return False
        unfinished = self.follower.behind()
        if unfinished > self._unfinished:
            self.pace.printed(clock())
        self._unfinished = unfinished
        return copied

    def read_the_rest(self) -> None:
        """Scan all that is left, including an unfinished line; if that takes too long, only the last megabytes."""
        if self.output is not None:
            self.output.finish(clock() + FINAL_SCAN_S)
        if not self.scan(FINAL_SCAN_S):
            self.follower.offset += max(0, self.follower.behind() - 4 * LogFollower.LONGEST)
            self.scan(0.1 * FINAL_SCAN_S)
        if (rest := self.follower.partial()) != self._rest:  # a bar that hangs moves once
            self._rest = rest
            self._take(self.reader.feed(rest + b"\n", clock()))

    def finish(self) -> None:
        """Scan all that is left of a trainer that has exited."""
        self.read_the_rest()
        self._take(self.reader.end())

    def take_unproven(self) -> None:
        """Count a step that has not grown twice: the limit to the first step is reached."""
        self._take(self.reader.unproven())

    def _take(self, line_signals: Iterable[LineSignal]) -> None:
        """Process what lines tell."""
        finder = self.reader.finder
        if finder is not None and finder.axis is not None and finder.axis.step_name != self._summary:
            self._summary = finder.axis.step_name
            self.event_log.emit("steps_found", plain(finder.summary()), changed_from=finder.changed_from)
        for signal in line_signals:
            text = signal.text or signal.line
            if signal.kind == "step":
                self._saw_step(signal.step, signal.kl, text, signal.time)
            else:
                self._saw(signal.kind, text, signal.hold_s, plain(signal.error_kind))

    def _saw_step(self, step: int | None, kl: float | None, text: bytes | str, at: float = 0.0) -> None:
        """Process a training step's metrics. `at`: when it was printed, if that was not now."""
        now, pace = at or clock(), self.pace
        self._resumed(now)
        if pace.step(now, step, kl):
            shown = "" if pace.kl is None else f", KL {pace.kl:g}"
            first = {"step": pace.first_step, "kl": pace.kl, "first_step_s": round(pace.first_s or 0.0, 3)}
            self.event_log.emit("first_step", f"first step: step {pace.first_step}{shown}", **first)
        if kl is not None and kl != kl:
            self._saw("nan", text)

    def _saw(self, kind: str, text: bytes | str, hold_s: float = 0.0, error_kind: str = "") -> None:
        """Process any other signal; unknown kinds are ignored."""
        now, pace = clock(), self.pace
        if kind in ("progress", "validation"):
            self._resumed(now)
            pace.moved(now, hold_s)
        elif kind == "ready":
            pace.ready(now)
        if kind == "validation":
            self.event_log.emit("validation", f"validation: {plain(text, 120)}")
        elif kind == "error":
            if not self.error or (error_kind and not self.error["error_kind"]):  # an error with a kind says more
                self.error = {"error_kind": error_kind, "error": plain(text)}
            self.event_log.emit("error", plain(text), kind=error_kind)
        elif kind == "nan" and not pace.nan:
            pace.nan = True
            self.event_log.emit("nan", f"a metric is not a number: {plain(text, 120)}")

    def _resumed(self, now: float) -> None:
        """If the run was stalled, end the stall and report it."""
        if self.pace.stalled:
            self.pace.stalled = False
            silent = round(now - self.pace.last_at, 1)
            self.event_log.emit("resumed", f"a signal again after {silent:.0f} s", silent_s=silent)
