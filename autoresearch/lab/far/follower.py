"""The Follower: submits, asks, mirrors and settles the runs of one place, however many they are.

One process for each place, in a session of its own; killed at any instruction, the next one goes on. It holds
`lock` in its directory, and reads of every run only what lies in its run directory. A run's last word is written
here, once, when the exit record has come and everything else of the run with it.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoresearch.core.ending import Ending
from autoresearch.core.far import Declined, Handle, JobLauncher, JobState, Observation, Seen, Unreachable, Want
from autoresearch.core.run import RunSpec, RunState
from autoresearch.errors import AutoresearchError
from autoresearch.lab.far import mirror as mirroring
from autoresearch.lab.far.gather import gather
from autoresearch.lab.far.settle import Memory, Settled, settle
from autoresearch.lab.far.ship import ship
from autoresearch.lab.parts import Parts
from autoresearch.records import events, journal, order_file, spec_file
from autoresearch.records.failpoint import failpoint
from autoresearch.records.order_file import Observed, Order
from autoresearch.records.rundir import RunDir, read_json, write_json

IDLE_S = 20.0  # without a run it goes
LOOK_S = 0.5  # between looks while something happens
SLOWEST_S = 8.0  # ... and while nothing answers
PENDING_LIMIT_S = 24 * 3600.0


@dataclass(slots=True)
class Following:
    """One run of this place."""

    rundir: RunDir
    spec: RunSpec
    order: Order
    memory: Memory = field(default_factory=Memory)
    told: str = ""  # the state that was written last, with its reason
    stop_sent: float | None = None

    @property
    def handle(self) -> Handle | None:
        """What the launcher calls it; None before it was submitted."""
        return self.order.handle


class Follower:
    """Follows every run of one place; make it while holding `lock`."""

    def __init__(
        self, folder: Path, launcher: JobLauncher, parts: Parts, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder = folder
        self.launcher = launcher
        self.parts = parts
        self.clock = clock
        self.runs: dict[str, Following] = {}
        self.silent_since: float | None = None  # since when nobody answers

    def run(self) -> None:
        """Until there has been nothing to follow for a while."""
        idle_since = self.clock()
        while self.clock() - idle_since < IDLE_S:
            self.turn()
            if self.runs:
                idle_since = self.clock()
            self._sleep()
        self.launcher.reach.close()

    def turn(self) -> None:
        """Submit what is ordered, ask once about everything, take in what came."""
        self._find_runs()
        try:
            for one in list(self.runs.values()):
                self._submit(one)
            self._ask()
        except Unreachable as silent:
            self._nobody_answers(silent)
        else:
            self.silent_since = None

    def _find_runs(self) -> None:
        for entry in self.parts.index.live():
            rundir = RunDir(Path(entry.run_dir))
            if entry.run in self.runs or not rundir.order.exists() or rundir.exit_record.exists():
                continue
            order = order_file.read(rundir)
            if order is None or Path(order.follower) != self.folder:
                continue
            with contextlib.suppress(AutoresearchError, OSError):
                one = Following(rundir, spec_file.read(rundir), order)
                one.memory.offsets = mirroring.offsets(rundir, order.watched)
                self.runs[entry.run] = one

    # -- submitting ---------------------------------------------------------------------------------------------

    def _submit(self, one: Following) -> None:
        if one.handle is not None:
            return
        if one.rundir.stop.exists() and one.order.submitting is None:
            self._end(one, {"ending": "stopped", "cause": "stop_request", "reason": "stopped before it was submitted"})
            return
        try:
            order, job = ship(one.rundir, one.spec, one.order, self.launcher.reach)
            one.memory.offsets = mirroring.offsets(one.rundir, order.watched)
            one.order = replace(order, submitting=self.parts.clock())
            order_file.write(one.rundir, one.order)
            failpoint("follower.submitting")
            handle = self.launcher.submit(job)
        except Declined as no:
            self._end(one, {"ending": "launch_failed", "cause": no.code, "reason": no.reason})
            return
        failpoint("follower.submitted")
        one.order = replace(one.order, handle=handle, submitted=self.parts.clock())
        order_file.write(one.rundir, one.order)
        one.rundir.environment.unlink(missing_ok=True)
        events.append(one.rundir.events, "submitted", job=handle.native, place=one.order.place.name)
        journal.append(Path(one.spec.result_dir), f"submitted to {one.order.place.name} as {handle.native}")
        failpoint("follower.noted")

    # -- asking -------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """One poll of the launcher and one look at the far directories for all runs."""
        asked = {run: one for run, one in self.runs.items() if one.handle is not None}
        if not asked:
            return
        said = self.launcher.poll([one.handle for one in asked.values() if one.handle])
        wants = [Want(run, one.order.directory, one.memory.offsets) for run, one in asked.items()]
        seen = self.launcher.reach.look(wants)
        for run, one in asked.items():
            self._advance(one, seen.get(run, Seen(there=False)), said.get(run, Observation(JobState.UNKNOWN)))

    def _advance(self, one: Following, seen: Seen, said: Observation) -> None:
        offset_s = self.launcher.reach.clock_offset()
        mirroring.mirror(one.rundir, one.spec, seen, one.memory.offsets, offset_s, one.order.watched)
        self._pass_on_stop(one, said)
        if seen.more:  # the rest comes with the next look, before any last word
            return
        limit = PENDING_LIMIT_S
        found = settle(one.memory, seen, said, self.clock(), pending_limit_s=limit)
        if found.record is not None:
            if found.remove and one.handle:
                self.launcher.stop(one.handle, hard=True)
            if gather(one.rundir, one.spec, one.order, self.launcher.reach):
                self._end(one, mirroring.in_our_time(found.record, offset_s))
            else:
                self._tell(one, Settled(RunState.RUNNING, "it is over, its results are copied"), said)
            return
        self._tell(one, found, said)

    def _pass_on_stop(self, one: Following, said: Observation) -> None:
        """A stop request goes to the Runner, or to the launcher where there is none yet; if nothing helps, for good."""
        if one.handle is None or not one.rundir.stop.exists():
            return
        now, grace_s = self.clock(), one.spec.limits.grace_s
        if one.stop_sent is None:
            one.stop_sent = now
            self.launcher.reach.put(one.order.directory, {"stop": one.rundir.stop.read_bytes()})
            if said.state is JobState.PENDING:
                self.launcher.stop(one.handle, hard=True)
        elif now - one.stop_sent > 2 * grace_s + 30.0:
            one.stop_sent = now
            self.launcher.stop(one.handle, hard=True)

    def _tell(self, one: Following, found: Settled, said: Observation) -> None:
        """Write down what is news."""
        told = f"{found.state} {found.reason} {said.word} {said.node}"
        if told == one.told:
            return
        one.told = told
        now = self.parts.clock()
        before = order_file.observed(one.rundir)
        since = before.since if before and before.state == found.state.value else now
        seen = Observed(found.state.value, now, since, found.reason, said.word, said.node)
        order_file.observe(one.rundir, seen)
        if before and before.state == RunState.UNREACHABLE.value and found.state is not RunState.UNREACHABLE:
            events.append(one.rundir.events, "recovered", silent_s=round(now - before.since, 1))
        if found.state in (RunState.PENDING, RunState.UNREACHABLE):
            events.append(one.rundir.events, found.state.value, reason=found.reason)

    def _nobody_answers(self, silent: Unreachable) -> None:
        """A state of its own: nothing is killed, retried or called failed."""
        self.silent_since = self.clock() if self.silent_since is None else self.silent_since
        for one in self.runs.values():
            hint = f"; {silent.hint}" if silent.hint else ""
            self._tell(one, Settled(RunState.UNREACHABLE, silent.reason + hint), Observation(JobState.UNKNOWN))

    # -- ending -------------------------------------------------------------------------------------------------

    def _end(self, one: Following, record: dict[str, Any]) -> None:
        """The run's last word: the exit record, and then whatever a collector makes of it."""
        now = self.parts.clock()
        whole = {
            "schema": 1,
            "run": one.spec.run,
            "started": one.order.submitted or one.order.ordered,
            "ended": now,
            **{key: value for key, value in record.items() if value is not None},
        }
        with contextlib.suppress(Unreachable, AutoresearchError):
            if one.handle:
                self.launcher.forget(one.handle)
        one.rundir.environment.unlink(missing_ok=True)
        failpoint("follower.before_exit_record")
        write_json(one.rundir.exit_record, whole)
        failpoint("follower.after_exit_record")
        if record["ending"] in (Ending.LOST.value, Ending.LAUNCH_FAILED.value):
            events.append(one.rundir.events, record["ending"], reason=record.get("reason", ""))
        del self.runs[one.spec.run]
        self._collect(one)

    def _collect(self, one: Following) -> None:
        """Start our CLI on this one run, as a Runner does; it may write for long, so nobody waits for it."""
        words = (read_json(one.rundir.spec) or {}).get("collector") or []
        if words:
            with (one.rundir.path / "collect.log").open("ab") as log, contextlib.suppress(OSError):
                subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def _sleep(self) -> None:
        """Until the bell rings, or it is time to look again."""
        time.sleep(LOOK_S if self.silent_since is None else min(SLOWEST_S, LOOK_S * 4))
