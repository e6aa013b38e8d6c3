"""One run at another target during a look, and what its directory keeps of it from look to look."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import Handle, Unreachable
from autoresearch.core.run.json_record import as_recorded, from_record
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.lab.remote.reconcile import Memory, Settled
from autoresearch.lab.remote_files.mirror import RemoteMirror
from autoresearch.records import events, journal, order_file, recorded_run
from autoresearch.records.files import read_json
from autoresearch.records.order_file import Observed, Order
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir


@dataclass(slots=True)
class FarRun:
    """One run of a target, whose lock is held."""

    rundir: RunDir
    spec: RunSpec
    order: Order
    mirror: RemoteMirror
    seen: Observed | None  # as it was written last
    lock: int  # descriptor of the file `looked`
    last_look: float  # before this one; wall clock
    memory: Memory
    silence: Unreachable | None = None  # why the launcher gave no answer
    news: bool = False  # something came with this look

    @classmethod
    def open(cls, rundir: RunDir, order: Order, seen: Observed | None, lock: int, last_look: float) -> FarRun:
        """The run of a directory, as the last look left it. Raises NotFoundError where it cannot be read."""
        spec = recorded_run.read(rundir)
        mirror = RemoteMirror(RecordedRun(rundir, spec), order.watched)
        memory = Memory()
        with contextlib.suppress(TypeError, ValueError):
            memory = from_record(Memory, seen.memory if seen else {})
        memory.pending_since = order.submitted
        return cls(rundir, spec, order, mirror, seen, lock, last_look, memory)

    @property
    def held(self) -> bool:
        """Whether its lock still counts: the run directory is there, and nobody else took it over."""
        try:
            return os.fstat(self.lock).st_ino == self.rundir.looked.stat().st_ino
        except OSError:
            return False

    @property
    def recorded(self) -> RecordedRun:
        """The run as its directory records it."""
        return RecordedRun(self.rundir, self.spec)

    def note_submitted(self, handle: Handle, wall: float) -> None:
        """Write down that it was submitted, with the handle of its job."""
        self.order = replace(self.order, handle=handle, submitted=wall)
        self.memory = Memory(pending_since=wall)
        order_file.write(self.rundir, self.order)
        self.rundir.environment.unlink(missing_ok=True)
        target = self.order.place.name
        text = f"submitted to {target} as {handle.native}"
        events.append(self.rundir.events, "submitted", job=handle.native, place=target, text=text)
        journal.append(Path(self.spec.result_dir), text)

    def tell(self, settled: Settled, wall: float, silence: Unreachable | None = None) -> None:
        """Write down its state and what is remembered. Raises OSError, EnvironmentUnusable."""
        before, answer, state, reason = self.seen, self.memory.answer, settled.state, settled.reason
        code = hint = ""
        if state is RunState.UNREACHABLE and silence is not None:
            reason, code, hint = silence.reason, silence.code, silence.hint
        changed = before is None or before.state != state.value
        node = (answer.node if answer else "") or (before.node if before else "")
        since = before.since if before and not changed else self.last_look if state is RunState.UNREACHABLE else wall
        self.seen = Observed(state.value, since, reason, node, hint)
        self.note()
        self.news = self.news or changed
        if before and changed and before.state == RunState.UNREACHABLE.value:
            events.append(self.rundir.events, "recovered", silent_s=round(max(0.0, wall - before.since), 1))
        if changed and state is RunState.UNREACHABLE:
            events.append(self.rundir.events, state.value, reason=reason, code=code)
        if state is RunState.PENDING and (changed or before is None or before.reason != reason):
            events.append(self.rundir.events, state.value, reason=reason)

    def note(self) -> None:
        """Write what is remembered of it, if that has changed. Raises OSError, EnvironmentUnusable."""
        seen = self.seen or Observed(RunState.STARTING.value, self.order.ordered)
        now = replace(seen, memory=as_recorded(self.memory))
        if now != order_file.observed(self.rundir):
            order_file.observe(self.rundir, now)
        self.seen = now

    def last_word(self, record: Mapping[str, Any], wall: float) -> dict[str, Any]:
        """Build the complete exit record from the Runner's or launcher's `record`, whose times are by the local
        clock.
        """
        order, runner = self.order, read_json(self.rundir.runner) or {}
        started = runner.get("started")
        submitted = order.submitted or order.ordered
        answer = self.memory.answer
        node = (answer.node if answer else "") or (self.seen.node if self.seen else "")
        known: dict[str, Any] = {
            "schema": 1,
            "run": self.spec.run,
            "started": started or submitted,
            "ended": wall,
            "job": order.handle.native if order.handle else "",
            "node": node or str(runner.get("host") or ""),  # it was over before the launcher was polled
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
