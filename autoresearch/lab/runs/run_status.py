"""A living run: its present state, from its files alone, and cheap enough to be asked for again and again; its news.

Reports come at the cadence of `core.run.limits`; exits, first steps, errors and limits wake within LOOK_S.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.metrics.signal import LineReader, Reading, SignalKind
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.errors import UsageError
from autoresearch.records import events
from autoresearch.records.files import read_json, tail
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import is_locked

if TYPE_CHECKING:
    from autoresearch.runner.log_follower import LogFollower

TAIL_BYTES = 256 * 1024
KEY_LINES = 64  # the longest private key: one that begins above the lines to be shown must still be recognised


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A living run: its elapsed and remaining time, and the last metrics it printed."""

    state: RunState
    elapsed_s: float  # 0 before its Runner started
    left_s: float  # until the total time limit
    first_step_left_s: float | None  # None after the first step
    last_step: Reading | None = None
    last_validation: Reading | None = None
    newest_output: str = ""  # the last line of its log, until a step is recognised

    @property
    def nearest_limit_s(self) -> float:
        """Seconds until the next limit can fire. One that has passed is held back by progress, or ends the run now."""
        return min((left for left in (self.left_s, self.first_step_left_s) if left), default=math.inf)

    @property
    def step(self) -> int | None:
        """The number of the last step; None where none was printed."""
        return self.last_step.step if self.last_step and self.last_step.step >= 0 else None


class RunWatch:
    """One living run: of its files only what changed since the last look is read."""

    def __init__(self, recorded: RecordedRun) -> None:
        self.recorded = recorded
        self.readings = LiveReadings(recorded.rundir.log, recorded.spec)
        self._first_step = False

    def status(self, run_state: RunState | None = None, *, once: bool = False, log: bool = True) -> RunStatus:
        """The status now. `run_state`: where somebody has just looked at it.

        once: there is no next look, so that an unfinished line is read as well. log: whether its log is read.
        """
        rundir, spec, readings = self.recorded.rundir, self.recorded.spec, self.readings
        state, record = run_state or rundir.state(), read_json(rundir.runner) or {}
        if log and state not in (RunState.PENDING, RunState.STARTING):
            readings.update(once=once)
        elapsed, first_left = seconds_since(record, spec), None
        if not (stepped := self._stepped()):
            first_left = first_step_left_s(spec, seconds_since(record, spec, since="trainer_started_boot"), rundir.log)
        return RunStatus(
            state,
            elapsed,
            max(0.0, spec.limits.max_s - elapsed),
            first_left,
            readings.step,
            readings.validation,
            "" if stepped else readings.newest,
        )

    def objective(self, now: RunStatus) -> float | None:
        """The objective as last printed; if no line has it (an expression, or in a file), from all its files."""
        objective, readings = self.recorded.spec.objective, [one for one in (now.last_validation, now.last_step) if one]
        if objective is None or not readings:
            return None
        for reading in readings:
            if objective.metric in reading.metrics:
                return reading.metrics[objective.metric]
        from autoresearch.lab.results.measure import RunFiles

        return RunFiles.of(self.recorded).so_far()

    def _stepped(self) -> bool:
        """Whether its first step was seen; events are read only until then."""
        self._first_step = self._first_step or self.readings.step is not None
        if not self._first_step:
            told, _ = events.read(self.recorded.rundir.events)
            self._first_step = any(event.event == "first_step" for event in told)
        return self._first_step


class LiveReadings:
    """The last training step and the last validation of one log: each byte is parsed once, of a large piece the end."""

    def __init__(self, log: Path, spec: RunSpec) -> None:
        self.log, self.spec = log, spec
        self.step: Reading | None = None
        self.validation: Reading | None = None
        self.newest = ""  # its last line, as it may be shown, until a step is known
        self._seen = (0, 0, 0)
        self._follower: LogFollower | None = None
        self._reader: LineReader | None = None

    def update(self, *, once: bool = False) -> None:
        """Read additions. A missing log has none. once: there is no next look, so an unfinished line is read, too."""
        try:
            found = self.log.stat()
        except OSError:
            return
        now = (found.st_ino, found.st_mtime_ns, found.st_size)
        if now == self._seen or (reader := self._opened()) is None:
            return
        self._seen = now
        follower = self._at_the_end(found.st_size)
        for chunk in follower.poll():
            self._keep_last([*reader.feed(chunk), *reader.so_far()])
        if once:
            self._keep_last([*reader.feed(follower.partial()), *reader.so_far(), *reader.end()])
        follower.close()
        self.newest = next(iter(tail_lines(self.log, 1)), "") if self.step is None else ""

    def _opened(self) -> LineReader | None:
        if self._reader is None:
            from autoresearch.trainers import registry

            with contextlib.suppress(UsageError):  # a newer version's
                self._reader = registry.of_run(self.spec).reader()
        return self._reader

    def _at_the_end(self, size: int) -> LogFollower:
        """The follower, moved forward to the start of a line if it is too far behind."""
        from autoresearch.runner.log_follower import LogFollower

        offset = self._follower.offset if self._follower else 0
        if self._follower is None or size - offset > TAIL_BYTES:
            if size - offset > TAIL_BYTES:
                offset = size - len(tail(self.log, TAIL_BYTES))
            self._follower = LogFollower(str(self.log), offset)
        return self._follower

    def _keep_last(self, readings: Iterable[Reading]) -> None:
        last = {reading.kind: reading for reading in readings}
        self.step = last.get(SignalKind.STEP, self.step)
        self.validation = last.get(SignalKind.VALIDATION, self.validation)


def first_step_left_s(spec: RunSpec, trained_s: float, log: Path) -> float:
    """Seconds until the limit to the first step ends the run, judged by its files. trained_s: since its start."""
    waited = trained_s
    if spec.limits.first_step_since_output:
        try:
            waited = min(trained_s, max(0.0, time.time() - log.stat().st_mtime))
        except OSError:
            pass  # nothing was printed yet
    return max(0.0, spec.limits.first_step_s - waited)


def seconds_since(record: Mapping[str, Any], spec: RunSpec, *, since: str = "started_boot") -> float:
    """Seconds since a Runner (or its trainer) started: by the boot clock in the same boot, else by the wall clock.

    `record`: the content of runner.json, in which `since` names the stamp. 0.0 before the start.
    """
    if record.get(since) is None:
        return 0.0
    started_boot, boot = record[since], record.get("boot_id")
    if isinstance(started_boot, (int, float)) and boot == boot_id():
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_boot)
    began = float(record.get("started", spec.created))
    if isinstance(started_boot, (int, float)) and isinstance(record.get("started_boot"), (int, float)):
        began += started_boot - record["started_boot"]  # another machine or boot: use the wall clock
    return max(0.0, time.time() - began)


@cache
def boot_id() -> str:
    """The id of this machine's current boot; "" if the kernel does not tell it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def total_of(log: Path, step: int) -> int | None:
    """The number of steps in all, where the newest lines print it beside this step (`12/40`); None otherwise."""
    text = tail(log, 16_384).decode("utf-8", "replace")
    found = re.findall(rf"(?<![\d./])(?:{step}|{step + 1})/(\d+)(?![\d./])", text)
    total = int(found[-1]) if found else 0
    return total if total >= max(2, step) else None


def tail_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log in a form safe to show: no escapes, no secrets, bounded."""
    from autoresearch.runner.masking import mask_text
    from autoresearch.runner.text import logical_lines

    if count <= 0:
        return []
    lines = list(logical_lines(tail(path, TAIL_BYTES)))[-count - KEY_LINES :]
    return [line[:500] for line in mask_text("\n".join(lines)).split("\n")[-count:]] if lines else []


def as_payload(run_watch: RunWatch, run_state: RunState | None = None, *, log: bool = True) -> dict[str, Any]:
    """The JSON object for an unfinished run. log: whether its log is read. run_state: see `RunWatch.status`."""
    recorded, now = run_watch.recorded, run_watch.status(run_state, once=True, log=log)
    rundir, spec = recorded.rundir, recorded.spec
    name = spec.objective.metric if spec.objective else None
    metrics: dict[str, float] = {}
    for reading in (now.last_step, now.last_validation):
        if reading:
            metrics.update(reading.metrics)
    return {
        "run": spec.run,
        "state": now.state.value,
        "ending": None,
        "returncode": None,
        "verdict": None,
        "step": now.step,
        "newest_output": now.newest_output or None,
        "metrics": metrics,
        "metric_name": name,
        "metric_value": run_watch.objective(now),
        "elapsed_s": round(now.elapsed_s, 3),
        "deadline_s": round(now.left_s, 3),
        "first_step_left_s": None if now.first_step_left_s is None else round(now.first_step_left_s, 3),
        "branch": spec.branch or None,
        "interpreter": spec.interpreter,
        "interpreter_source": spec.interpreter_source,
        **recorded.record_paths(),
        **elsewhere(rundir),
    }


def elsewhere(rundir: RunDir) -> dict[str, Any]:
    """The additional fields of a remote run; a local one does not even import them."""
    if not rundir.order.exists():
        return {}
    from autoresearch.lab.remote.reconcile import about

    return about(rundir)


# ------------------------------------------------------------------------------------------ its news

LOOK_S = 0.2  # between two looks at the files
FIRST_LOOK_S = 0.02  # ... at first, as the end of a stop is near
WAKING = frozenset(
    {
        "first_step",
        "error",
        "nan",
        "stall",
        "limit",
        "stopping",
        "ended",
        "killed",
        "recorded",
        "lost",
        "launch_failed",
        "pending",
        "unreachable",
        "recovered",
    }
)


class Watcher:
    """Wakes when the events of any of its runs grow, its exit record appears, or its Runner starts or dies."""

    def __init__(self, rundirs: Iterable[RunDir]) -> None:
        self.rundirs = list(rundirs)
        self._paths = {r.path: (str(r.events), str(r.exit_record), str(r.lock)) for r in self.rundirs}
        self._seen = {r.path: self._look(r) for r in self.rundirs}

    def _look(self, rundir: RunDir) -> tuple[int, bool, bool]:
        """The state to compare for changes: a few system calls, as it is read for 200 runs at once."""
        events, exit_record, lock = self._paths[rundir.path]
        try:
            size = os.stat(events).st_size  # noqa: PTH116 - pathlib costs five times the call
        except OSError:
            size = 0
        return size, os.path.exists(exit_record), is_locked(lock)  # noqa: PTH110

    def wait(self, timeout: float) -> list[RunDir]:
        """Sleep until a run changes or `timeout` seconds pass; returns the changed runs."""
        deadline, pause = time.monotonic() + timeout, FIRST_LOOK_S
        while True:
            now = {r.path: self._look(r) for r in self.rundirs}
            changed = [r for r in self.rundirs if now[r.path] != self._seen[r.path]]
            self._seen = now
            left = deadline - time.monotonic()
            if changed or left <= 0:
                return changed
            time.sleep(min(left, pause))
            pause = min(1.5 * pause, LOOK_S)


def wait_for_news(rundir: RunDir, *, since: int, seconds: float) -> tuple[list[events.Event], int]:
    """New events that should wake a waiter, or none after `seconds`; and the next sequence number.

    An end counts only when the exit record exists, so that the woken waiter finds complete records.
    """
    deadline = time.monotonic() + seconds
    watcher = Watcher([rundir])
    while True:
        over = not rundir.state().lives
        fresh, since = events.read(rundir.events, since)
        news = [event for event in fresh if event.event in WAKING]
        left = deadline - time.monotonic()
        if over or news or left <= 0:
            return news, since
        watcher.wait(left)
