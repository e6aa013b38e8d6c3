"""One run as its Follower sees it, and the local record of its state."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import Handle, Observation, Unreachable
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.lab.remote.reconcile import Memory, Settled
from autoresearch.lab.remote_files.mirror import RemoteMirror
from autoresearch.records import events, journal, order_file, recorded_run
from autoresearch.records.order_file import Observed, Order
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir, read_json, write_json

# What a Follower does for runs that are over: has them collected, and keeps in mind which jobs are to be forgotten.

# A controller, a `run` or a `wait` that is awake collects within milliseconds; and it may be starting the next run.
_LATER = 'sleep 3; [ -e "$0" ] || exec nice -n 10 "$@"'


def collect_later(rundir: RunDir, environ: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
    """Start the collector of a run, detached: it waits first whether somebody else collects. Raises OSError."""
    words = (read_json(rundir.spec) or {}).get("collector") or []
    if not words:
        return None
    with (rundir.path / "collect.log").open("ab") as log:
        return subprocess.Popen(
            ["sh", "-c", _LATER, str(rundir.collected), *map(str, words)],
            env={name: value for name, value in environ.items() if name != "AUTORESEARCH_RUN_ID"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


class Submissions:
    """Jobs that their launcher still keeps, with their run directories: a file for each in the Follower's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "jobs"

    def note(self, handle: Handle, rundir: RunDir) -> None:
        """Record a job. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / handle.run, {"handle": asdict(handle), "run_dir": str(rundir.path)}, durable=False)

    def over(self) -> Iterator[tuple[Handle, RunDir]]:
        """Jobs that may be forgotten: the run is recorded, or its directory is gone. Damaged records are deleted."""
        for path in sorted(self.folder.glob("[!.]*")) if self.folder.is_dir() else ():
            record = read_json(path)
            try:
                handle, rundir = Handle(**(record or {})["handle"]), RunDir(Path((record or {})["run_dir"]))
            except (KeyError, TypeError):
                path.unlink(missing_ok=True)
                continue
            try:
                over = rundir.removed or rundir.exit_record.exists()
            except OSError:  # it cannot be read now
                continue
            if over:
                yield handle, rundir

    def drop(self, run: str) -> None:
        """Delete the record of a forgotten job."""
        (self.folder / run).unlink(missing_ok=True)


# When the Follower looks and polls: often while something happens, rarely while nothing does; and who wakes it.
#
# The clock is passed in.

LOAD = 20.0  # times its duration pass between two looks: one that takes a second is made every 20 s ...
COSTLY_S = 60.0  # ... but no look waits longer than this for its cost
WAKES_S = 0.1  # between two looks at the bell
TOLD_AFTER = 2  # failures in a row; a single one is not reported


@dataclass(slots=True)
class PollSchedule:
    """A repeated action, with gaps between `fastest_s` and `slowest_s`."""

    fastest_s: float
    slowest_s: float
    gap_s: float = 0.0
    at: float = 0.0  # when it is due

    def due(self, now: float) -> bool:
        return now >= self.at

    def hurry(self, now: float) -> None:
        """Something may be new: make it due as soon as the fastest gap allows."""
        self.at = min(self.at, now + self.fastest_s)

    def at_once(self) -> None:
        """Make it due now."""
        self.at = 0.0

    def done(self, now: float, *, news: bool, took_s: float = 0.0) -> None:
        """It was done and took `took_s`; `news`: it showed something new."""
        self.gap_s = self.fastest_s if news else min(max(self.gap_s, self.fastest_s) * 1.5, self.slowest_s)
        self.at = now + max(self.gap_s, min(LOAD * took_s, COSTLY_S))


@dataclass(slots=True)
class Backoff:
    """Backoff of one kind of request without an answer: 0.5 s, 1, 2 ... 30. Keeps the first time and the last error."""

    first_s: float = 0.5
    most_s: float = 30.0
    tries: int = 0
    since: float = 0.0  # by the clock that `fell` is given as `wall`
    again_at: float = 0.0  # local clock
    error: Unreachable | None = None

    def fell(self, unreachable: Unreachable, now: float, wall: float) -> None:
        """Record a failure and schedule the next try."""
        self.since = self.since if self.tries else wall
        self.tries += 1
        self.error = unreachable
        self.again_at = now + min(self.first_s * 2.0 ** min(self.tries - 1, 20), self.most_s)

    def broken(self) -> None:
        """Reset after an answer."""
        self.tries, self.since, self.again_at, self.error = 0, 0.0, 0.0, None

    def holds(self, now: float) -> bool:
        """Whether it is too early to try again."""
        return self.tries > 0 and now < self.again_at

    @property
    def reportable(self) -> bool:
        """Whether it failed often enough to be reported."""
        return self.tries >= TOLD_AFTER


class Wakeup:
    """A file that whoever orders a run, or asks one to stop, touches; on this machine or on another one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._rung = self._stamp()

    def wait(self, seconds: float) -> bool:
        """Sleep at most so many seconds; whether the file was touched since the last call."""
        until = time.monotonic() + seconds
        while (now := self._stamp()) == self._rung:
            if (left := until - time.monotonic()) <= 0:
                return False
            time.sleep(min(left, WAKES_S))
        self._rung = now
        return True

    def _stamp(self) -> int:
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return 0


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
        spec = recorded_run.read(rundir)
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
