"""Decides whether the run must end, and why: limits, and stop requests of users and schedulers."""

from __future__ import annotations

import contextlib
import os

from .basics import NEVER, clock, parse_object, read_file
from .event_log import EventLog
from .listener import Listener
from .spec import Spec
from .text import plain


class StopDecision:
    """Why the Runner ends the run: fixed before the trainer's exit code is known."""

    def __init__(self, ending: str, cause: str, reason: str) -> None:
        self.ending = ending
        self.cause = cause
        self.reason = reason


class Stopping:
    """The only place that decides to end the run; the first reason counts."""

    def __init__(self, run_dir: str, runner_spec: Spec, event_log: EventLog, listener: Listener) -> None:
        self.spec = runner_spec
        self.event_log = event_log
        self.listener = listener
        self.pace = listener.pace
        self.decision: StopDecision | None = None
        self.later: StopDecision | None = None  # a request after the decision: cuts the evaluation short
        self.log_bytes: int | None = None  # size of the log at the decision: what follows is its consequence
        self._log = f"{run_dir}/run.log"
        self._file = f"{run_dir}/stop"
        self._file_seen = (0, 0)

    @property
    def max_deadline(self) -> float:
        """When the run's total time limit is reached."""
        return NEVER if self.spec.max_s is None else self.event_log.origin + self.spec.max_s

    def next_limit(self) -> float:
        """The nearest time at which `check_limits` may have something to do."""
        deadlines = self.pace.next_deadline() if self.pace.started else NEVER
        return min(self.max_deadline, deadlines)

    def check_limits(self) -> None:
        """Decide to end the run if a limit is reached; report a stall."""
        if self.decision:
            return
        now, pace = clock(), self.pace
        if now >= self.max_deadline:
            self._over_limit("max_time", self.spec.max_s, "the run's time limit is reached")
        if self.decision or not pace.started:
            return
        if now >= pace.next_deadline():
            self.listener.read_the_rest()  # the limit applies to what was printed, read or not
        if now >= pace.first_deadline():
            self.listener.take_unproven()
        if now >= pace.first_deadline():
            quiet = "no step is known, and nothing new was printed in time"
            what = quiet if self.spec.first_step_since_output else "no first step in time"
            self._over_limit("first_step_timeout", self.spec.first_step_s, what)
        elif now >= pace.stall_deadline():
            self._over_limit("stalled", self.spec.stall_s, "no new signal")
        elif now >= pace.report_deadline():
            pace.stalled = True
            silent = round(now - pace.last_at, 1)
            self.event_log.emit("stall", f"no new signal for {silent:.0f} s", silent_s=silent)

    def _over_limit(self, ending: str, limit: float | None, what: str) -> None:
        self.event_log.emit("limit", f"{what} ({limit:g} s)", limit=ending, limit_s=limit)
        self.decide(ending, ending, f"{what} (limit {limit:g} s)")

    def decide(self, ending: str, cause: str, reason: str) -> None:
        """Fix why the run ends, unless that is decided already."""
        if self.decision is None:
            self.decision = StopDecision(ending, cause, reason)
            with contextlib.suppress(OSError):
                self.log_bytes = os.stat(self._log).st_size
            self.event_log.emit("stopping", f"stopping: {reason}", ending=ending, cause=cause)

    def request(self, cause: str, reason: str) -> None:
        """Handle a stop request."""
        if self.decision:
            self.later = self.later or StopDecision("stopped", cause, reason)
            return
        self.decide("stopped", cause, reason)

    def walltime_is_near(self) -> None:
        """Handle the scheduler's warning that the job ends soon, like reaching `max_time`."""
        over = StopDecision("max_time", "walltime", "the scheduler's wall time is near (SIGUSR1)")
        if self.decision:
            self.later = self.later or over
            return
        self.event_log.emit("limit", over.reason, limit="walltime")
        self.decide(over.ending, over.cause, over.reason)

    def check_file(self) -> None:
        """Read the `stop` file if it is new, and handle the request."""
        try:
            there = os.stat(self._file)
        except OSError:
            return
        if self._file_seen != (there.st_ino, there.st_mtime_ns):
            self._file_seen = (there.st_ino, there.st_mtime_ns)
            asked = parse_object(read_file(self._file))
            reason = plain(str(asked.get("reason") or "a stop was requested"))
            cause = plain(str(asked.get("cause") or "stop_request"), 40)
            self.request(cause, reason)
