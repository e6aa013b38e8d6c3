"""One run as its Follower sees it, and the local record of its state."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import Handle, Observation
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.lab.remote.poll_schedule import Backoff
from autoresearch.lab.remote.reconcile import Memory, Settled
from autoresearch.lab.remote_files.mirror import RemoteMirror
from autoresearch.records import events, journal, order_file, spec_file
from autoresearch.records.order_file import Observed, Order
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir, read_json


@dataclass(slots=True)
class FollowedRun:
    """One run of a target."""

    rundir: RunDir
    spec: RunSpec
    order: Order
    mirror: RemoteMirror
    memory: Memory = field(default_factory=Memory)
    observation: Observation | None = None  # the launcher's last answer; None: not polled yet, or no answer
    node: str = ""
    noted: bool = True  # the order file holds the job handle
    reported: Observed | None = None  # the observation written last
    stop_at: float = 0.0  # when the stop request was passed on, by the local clock
    stop_stamp: int = 0  # modification time of the present stop request
    stop_passed: int = 0  # modification time of the one passed on last
    stop_told: int = 0  # what the launcher was asked for: 1 a soft stop, 2 a hard one
    silence: Backoff = field(default_factory=lambda: Backoff(first_s=1.0))  # its own submit got no answer
    trouble: Backoff = field(default_factory=lambda: Backoff(first_s=2.0))  # it could not be sent, for its own reasons

    @classmethod
    def open(cls, rundir: RunDir, order: Order, pending_since: float | None) -> FollowedRun:
        """The run of a directory, as an earlier Follower left it. `pending_since`: by the Follower's clock."""
        spec = spec_file.read(rundir)
        mirror = RemoteMirror(RecordedRun(rundir, spec), order.watched)
        followed = cls(rundir, spec, order, mirror, reported=order_file.observed(rundir))
        if pending_since is not None:
            followed.memory = Memory(pending_since=pending_since)
        return followed

    @property
    def recorded(self) -> RecordedRun:
        """The run as its directory records it."""
        return RecordedRun(self.rundir, self.spec)

    def note_submitted(self, handle: Handle) -> None:
        """Write down that it was submitted, with the handle of its job."""
        order_file.write(self.rundir, self.order)
        self.noted = True
        self.rundir.environment.unlink(missing_ok=True)
        target = self.order.place.name
        text = f"submitted to {target} as {handle.native}"
        events.append(self.rundir.events, "submitted", job=handle.native, place=target, text=text)
        journal.append(Path(self.spec.result_dir), text)

    @property
    def handle(self) -> Handle | None:
        """The launcher's handle of its job; None before it was submitted."""
        return self.order.handle

    @property
    def gone(self) -> bool:
        """Whether its run directory was removed or cannot be read."""
        return not os.path.exists(self.rundir.spec)  # noqa: PTH110 - pathlib raises where it may not look

    def stop_request(self) -> Mapping[str, Any] | None:
        """The present stop request, if any."""
        return read_json(self.rundir.stop) if self.stop_stamp else None

    def look_for_stop(self) -> int:
        """Modification time of the stop request in ns; 0 without one."""
        try:
            return os.stat(f"{self.spec.run_dir}/stop").st_mtime_ns  # noqa: PTH116 - for each run at each look
        except OSError:
            return 0

    def tell(self, settled: Settled, wall: float, silence: Backoff | None = None) -> bool:
        """Record the run's state if it changed; returns whether it did. Raises OSError, EnvironmentUnusable."""
        before, now = self.reported, self._observed(settled, wall, silence)
        if before is not None and replace(now, t=before.t) == before:
            return False
        order_file.observe(self.rundir, now)
        self.reported = now
        changed = before is None or before.state != now.state
        if before and changed and before.state == RunState.UNREACHABLE.value:
            silent_s = round(max(0.0, wall - before.since), 1)
            events.append(self.rundir.events, "recovered", silent_s=silent_s)
        if changed and settled.state is RunState.UNREACHABLE:
            events.append(self.rundir.events, now.state, reason=now.reason, code=now.more.get("code", ""))
        if settled.state is RunState.PENDING and (changed or before is None or before.reason != now.reason):
            events.append(self.rundir.events, now.state, reason=now.reason)
        return True

    def _observed(self, settled: Settled, wall: float, silence: Backoff | None) -> Observed:
        before, word = self.reported, self.observation.word if self.observation else ""
        since, reason, more = wall, settled.reason, dict[str, Any]()
        if silence is not None and silence.error is not None:
            since, reason = silence.since, silence.error.reason
            more = {"code": silence.error.code, "hint": silence.error.hint}
        if before and before.state == settled.state.value:
            since = before.since
        return Observed(settled.state.value, wall, since, reason, word, self.node, more)

    def last_word(self, record: Mapping[str, Any], wall: float) -> dict[str, Any]:
        """Build the complete exit record from the Runner's or launcher's `record`, whose times are by the local
        clock.
        """
        order, runner = self.order, read_json(self.rundir.runner) or {}
        started = runner.get("started")
        submitted = order.submitted or order.ordered
        known: dict[str, Any] = {
            "schema": 1,
            "run": self.spec.run,
            "started": started or submitted,
            "ended": wall,
            "job": self.handle.native if self.handle else "",
            "node": self.node or str(runner.get("host") or ""),  # it was over before the launcher was polled
            "queue_s": round(max(0.0, (started or wall) - submitted), 3),
        }
        if record["ending"] == Ending.LOST.value and started:
            known["ended"] = self._last_sign(started)
            known["duration_s"] = round(known["ended"] - started, 3)
            if first := next((e for e in events.read(self.rundir.events)[0] if e.event == "first_step"), None):
                known |= {"first_step_s": first.s, "first_step": first.get("step")}
        return {**known, **{key: value for key, value in record.items() if value is not None}}

    def _last_sign(self, started: float) -> float:
        times = [started]
        for path in (self.rundir.log, self.rundir.events):
            with contextlib.suppress(OSError):
                times.append(path.stat().st_mtime)
        return max(times)

    def end_log_session(self) -> None:
        """End the program that follows the log in the run's session; the pane stays readable."""
        pid = (read_json(self.rundir.session) or {}).get("pane_pid")
        with contextlib.suppress(OSError):
            if isinstance(pid, int) and str(self.rundir.log) in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                os.kill(pid, signal.SIGTERM)
