"""The Follower: submits, polls, mirrors and settles all runs of one target.

One process per target, in a session of its own; if it is killed at any instruction, the next one continues. It holds
`lock` in its folder, and reads of every run only what lies in its run directory. It writes a run's exit record once,
after the remote exit record and all other files of the run have arrived.

    place.json   the target
    lock         flock'd by the Follower while it lives; `starting` by whoever starts it
    bell         touched by whoever orders a run or asks one to stop
    jobs/RUN     a submitted job that its launcher still keeps
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import (
    Declined,
    DirectoryState,
    Job,
    JobLauncher,
    JobState,
    Observation,
    Unreachable,
    Want,
)
from autoresearch.core.run.spec import RunState
from autoresearch.core.run.targets import Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.followed_run import Backoff, FollowedRun, PollSchedule, Submissions, Wakeup, collect_later
from autoresearch.lab.remote.reconcile import Memory, Settled, settle
from autoresearch.lab.remote_files import mirror as mirroring
from autoresearch.lab.remote_files.download import gather
from autoresearch.lab.remote_files.upload import ship
from autoresearch.lab.runs import detached
from autoresearch.records import events, order_file
from autoresearch.records.order_file import duration_option
from autoresearch.records.rundir import RunDir, read_json, write_json
from autoresearch.runner.basics import failpoint

IDLE_S = 20.0  # exit after so long without a run
FIND_S = 5.0  # between two searches for orders that did not ring the bell
LOOKS_S = (0.2, 4.0)  # between two looks at the remote directories: fastest, slowest
POLLS_S = (2.0, 15.0)  # between two polls of the launcher: fastest, slowest
YOUNG_S = 20.0  # runs submitted this recently are looked at often
SUBMITTING_S = 2.0  # longest series of submits before the other runs are looked at again
SHIPPING_S = 600.0  # a run whose files cannot be shipped for reasons of its own is given up after so long ...
SHIPPING_TRIES = 5  # ... and at least this many tries
PENDING_LIMIT_S = 24 * 3600.0
SOFTLY_S = 5.0  # a Runner that has not reacted to its stop request after so long is signalled
PARTING_TRIES = 20  # of a launcher that does not answer, when only finished jobs are left to be forgotten
CLEANUP_S = 150.0  # beside twice the grace period, what a Runner may take to stop

_OWN = (AutoresearchError, OSError)
_ENDINGS = tuple(Ending)


class Follower:
    """Follows every run of one target; create it while holding `lock`."""

    def __init__(
        self,
        folder: Path,
        target: Target,
        launcher: JobLauncher,
        parts: Parts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.launcher = launcher
        self.parts = parts
        self.clock = clock
        self.runs: dict[str, FollowedRun] = {}
        self.pending_limit_s = duration_option(target, "pending_limit", PENDING_LIMIT_S)
        asked = duration_option(target, "poll", 0.0)
        self.looks = PollSchedule(*LOOKS_S)
        self.polls = PollSchedule(asked or POLLS_S[0], asked or POLLS_S[1])
        self.finds = PollSchedule(FIND_S, FIND_S)
        self.no_launcher, self.no_files = Backoff(), Backoff()
        self.departures = Submissions(folder)
        self.departing = True  # there may be jobs to forget
        self.collectors: list[subprocess.Popen[bytes]] = []
        self.offset_s = 0.0

    def run(self) -> None:
        """Work until there was nothing to follow for IDLE_S, or until another environment was handed over."""
        bell = Wakeup(self.folder / "bell")
        idle_since = self.clock()
        try:
            while self.clock() - idle_since < IDLE_S:
                self.turn()
                if self.runs or self.collectors or (self.departing and self.no_launcher.tries < PARTING_TRIES):
                    idle_since = self.clock()
                if bell.wait(self.nap_s()):
                    self.rung()
                if detached.handed(self.folder):  # the caller restarts it with the new environment
                    return
        finally:
            self.launcher.reach.close()

    def rung(self) -> None:
        """React to the bell (a new order or stop request): everything is due at once, backoffs included."""
        for rhythm in (self.finds, self.looks):
            rhythm.at_once()
        for silence in (self.no_launcher, self.no_files, *(one.silence for one in self.runs.values())):
            silence.again_at = 0.0

    def nap_s(self) -> float:
        """Seconds until something is due."""
        times = [self.finds.at]
        if self.runs or self.departing:
            for rhythm, silence in ((self.looks, self.no_files), (self.polls, self.no_launcher)):
                times.append(max(rhythm.at, silence.again_at if silence.tries else 0.0))
        return min(max(0.02, min(times) - self.clock()), FIND_S)

    def turn(self) -> None:
        """Submit ordered runs, poll the launcher and look at the directories, each when due."""
        now = self.clock()
        self.collectors = [each for each in self.collectors if each.poll() is None]
        if self.finds.due(now):
            with contextlib.suppress(*_OWN):
                self.find_runs()
            self.finds.done(now, news=True)
        if not self.no_launcher.holds(now):
            self._with_launcher(self._depart)
            self._with_launcher(self._submit_all)
        if self.polls.due(self.clock()) and not self.no_launcher.holds(self.clock()):
            self._with_launcher(self._poll)
        if self.looks.due(self.clock()) and not self.no_files.holds(self.clock()):
            self._look()

    def find_runs(self) -> bool:
        """Take up unfinished runs of this target that are not followed yet; returns whether there is any run."""
        for entry in self.parts.index.live(known=self.runs):
            with contextlib.suppress(*_OWN):  # a damaged or unreadable run must not affect the others
                if one := self._take_up(RunDir(Path(entry.run_dir))):
                    self.runs[entry.run] = one
        for run, one in list(self.runs.items()):
            if one.gone or one.rundir.exit_record.exists():
                del self.runs[run]
                self.departing = True
        return bool(self.runs)

    def _take_up(self, rundir: RunDir) -> FollowedRun | None:
        """The run to follow; None if it is over or belongs elsewhere."""
        if not rundir.order.exists() or rundir.exit_record.exists():
            return None
        order = order_file.read(rundir)
        if order is None:
            return None
        named = Path(order.follower)
        if named != self.folder and not named.samefile(self.folder):  # a home directory may have two names
            return None
        waited_s = None if order.submitted is None else max(0.0, self.parts.clock() - order.submitted)
        followed = FollowedRun.open(rundir, order, None if waited_s is None else self.clock() - waited_s)
        self.looks.at_once()
        self.polls.hurry(self.clock())
        return followed

    def _with_launcher(self, do: Callable[[], None]) -> None:
        """Run `do`; a launcher that does not answer is a state of its own: nothing is killed or declared failed
        for it.
        """
        try:
            do()
        except (Unreachable, Declined, *_OWN) as error:
            self._launcher_is_silent(error)

    def _launcher_is_silent(self, error: Exception) -> None:
        """Back off; a refusal of anything but a submit counts as unreachable too."""
        if isinstance(error, Declined):
            error = Unreachable(error.reason, code=error.code, hint=error.hint)
        if not isinstance(error, Unreachable):
            error = Unreachable(str(error), code="launcher_failed")
        self.no_launcher.fell(error, self.clock(), self.parts.clock())
        for one in self.runs.values() if self.no_launcher.reportable else ():
            one.observation = None
            if one.handle is None:
                self._tell(one, Settled(RunState.UNREACHABLE))
        self.looks.hurry(self.clock())

    # -- submitting ---------------------------------------------------------------------------------------------

    def _submit_all(self) -> None:
        """Submit what is due; runs whose own submit timed out before (too much code to compare) come last."""
        until = self.clock() + SUBMITTING_S
        for one in sorted(self.runs.values(), key=lambda one: one.silence.tries):
            now = self.clock()
            if (one.handle is not None and one.noted) or one.trouble.holds(now) or one.silence.holds(now):
                continue
            try:
                self._note(one) if one.handle else self._submit(one)
            except Unreachable as silent:
                one.silence.fell(silent, self.clock(), self.parts.clock())
                self._tell(one, Settled(RunState.UNREACHABLE))
                raise
            except _OWN as error:
                self._cannot_be_shipped(one, error)
            if self.clock() >= until:
                return

    def _submit(self, followed: FollowedRun) -> None:
        stop = read_json(followed.rundir.stop)
        if stop is not None and followed.order.submitting is None:
            why = str(stop.get("reason") or "a stop was requested")
            record = {"ending": "stopped", "cause": stop.get("cause") or "stop_request", "reason": why}
            self._end(followed, record)
            return
        try:
            followed.order, job = self._ship(followed)
            followed.mirror.watch(followed.order.watched)
            if stop is not None:  # the Follower was killed between submit and note: there may be a job to find
                self.launcher.reach.put(followed.order.directory, {"stop": followed.rundir.stop.read_bytes()})
            followed.order = replace(followed.order, submitting=followed.order.submitting or self.parts.clock())
            order_file.write(followed.rundir, followed.order)
            failpoint("follower.submitting")
            handle = self.launcher.submit(job)
        except Declined as no:
            reason = f"{no.reason}; {no.hint}" if no.hint else no.reason
            with contextlib.suppress(Unreachable):  # remove what was sent
                gather(followed.recorded, followed.order, self.launcher.reach)
            self._end(followed, {"ending": "launch_failed", "cause": no.code, "reason": reason})
            return
        self._answered(self.no_launcher)
        followed.silence.broken()
        failpoint("follower.submitted")
        followed.order = replace(followed.order, handle=handle, submitted=self.parts.clock())
        followed.memory = Memory(pending_since=self.clock())
        followed.noted = False
        followed.trouble.broken()
        self._note(followed)

    def _ship(self, followed: FollowedRun) -> tuple[order_file.Order, Job]:
        """Ship the files. If they were shipped before, a job may exist, so a refusal now (a full disk) is no
        final one.
        """
        try:
            return ship(followed.recorded, followed.order, self.launcher.reach)
        except Declined as no:
            if followed.order.submitting is None:
                raise
            raise Unreachable(no.reason, code=no.code, hint=no.hint) from no

    def _note(self, followed: FollowedRun) -> None:
        """Record the job's handle; until that is done, the job is searched for again after a kill."""
        handle = followed.handle
        assert handle is not None
        self.departures.note(handle, followed.rundir)
        followed.note_submitted(handle)
        failpoint("follower.noted")
        self.looks.at_once()
        self.polls.hurry(self.clock())

    def _cannot_be_shipped(self, followed: FollowedRun, error: Exception) -> None:
        """Retry later, without delaying other runs; give up in the end if no job can exist."""
        trouble, now = followed.trouble, self.clock()
        trouble.fell(Unreachable(str(error)), now, now)
        patience_s = SHIPPING_S if isinstance(error, OSError) else 0.0
        lasts = trouble.tries >= SHIPPING_TRIES and now - trouble.since >= patience_s
        if followed.order.submitting is None and lasts:
            with contextlib.suppress(*_OWN):
                self._end(followed, {"ending": "launch_failed", "cause": "not_shipped", "reason": str(error)})

    # -- asking -------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        """Poll the launcher once for all runs."""
        asked = {run: one for run, one in self.runs.items() if one.handle is not None}
        before = self.clock()
        if asked:
            said = self.launcher.poll([one.handle for one in asked.values() if one.handle])
            self._answered(self.no_launcher)
            for run, one in asked.items():
                one.observation = said.get(run, Observation(JobState.UNKNOWN))
                one.node = one.observation.node or one.node
            self.looks.at_once()
        self.polls.done(self.clock(), news=False, took_s=self.clock() - before)

    def _look(self) -> None:
        """Look at the remote directories of all runs at once."""
        asked = {run: one for run, one in self.runs.items() if one.handle is not None and one.noted}
        before = self.clock()
        news = more = False
        if asked:
            wants = [Want(run, one.order.directory, one.mirror.had) for run, one in asked.items()]
            try:
                self.offset_s = self.launcher.reach.clock_offset()
                found = self.launcher.reach.look(wants)
            except Unreachable as silent:
                self._files_are_silent(silent, asked)
                return
            except OSError as error:
                self._files_are_silent(Unreachable(str(error), code="look_failed"), asked)
                return
            self._answered(self.no_files)
            for run, one in asked.items():
                news = self._advance(one, found.get(run, DirectoryState(there=False))) or news
            more = any(seen.more for seen in found.values())
        young = any(self.parts.clock() - (one.order.submitted or 0.0) < YOUNG_S for one in asked.values())
        self.looks.done(self.clock(), news=news or young, took_s=0.0 if more else self.clock() - before)
        if more:  # after a long silence there is much to fetch
            self.looks.at_once()

    def _files_are_silent(self, silent: Unreachable, followed_runs: Mapping[str, FollowedRun]) -> None:
        self.no_files.fell(silent, self.clock(), self.parts.clock())
        for one in followed_runs.values():
            one.memory.after_silence(self.clock())
            if self.no_files.reportable:
                self._tell(one, Settled(RunState.UNREACHABLE))

    def _answered(self, silence: Backoff) -> None:
        if silence.tries:
            silence.broken()
            self.polls.hurry(self.clock())

    def _advance(self, followed: FollowedRun, directory_state: DirectoryState) -> bool:
        """Process what was seen of one run; returns whether it was news. Its errors must not affect other runs."""
        try:
            return self._settle(followed, directory_state)
        except (Unreachable, Declined) as silent:
            self._launcher_is_silent(silent)
        except _OWN as error:  # a full disk, a removed directory: the next look tries again
            if followed.gone:
                self.finds.at_once()
            else:
                state = RunState.RUNNING if directory_state.claimed else RunState.STARTING
                self._tell(followed, Settled(state, f"what comes back cannot be written here: {error}"))
        return False

    def _settle(self, followed: FollowedRun, directory_state: DirectoryState) -> bool:
        if directory_state.exit.get("ending") not in _ENDINGS:  # a damaged file, or a foreign one of that name
            directory_state = replace(directory_state, exit={})
        self._pass_on_stop(followed, directory_state)  # first: it needs no disk space here
        came = followed.mirror.take(directory_state, self.offset_s)
        if directory_state.more:  # the rest comes with the next look, before any exit record
            return True
        limit_s, stop_request = self.pending_limit_s, followed.stop_request()
        settled = settle(
            followed.memory,
            directory_state,
            followed.observation,
            self.clock(),
            pending_limit_s=limit_s,
            stop_request=stop_request,
        )
        if settled.ask:
            self.polls.hurry(self.clock())
        if settled.record is None:
            return self._tell(followed, settled) or came
        if settled.remove and followed.handle:
            self.launcher.stop(followed.handle, hard=True)
        if not gather(followed.recorded, followed.order, self.launcher.reach):
            self._tell(followed, Settled(RunState.RUNNING, "it is over, its results are copied"))
            return True
        if followed.reported and followed.reported.state == RunState.UNREACHABLE.value:
            # it began and ended before it could be looked at
            self._tell(followed, Settled(RunState.RUNNING, "it is over"))
        ours = mirroring.in_our_time(settled.record, self.offset_s) if directory_state.exit else settled.record
        self._end(followed, ours)
        return True

    def _pass_on_stop(self, followed: FollowedRun, directory_state: DirectoryState) -> None:
        """Pass a stop request to the Runner, or to the launcher if no Runner runs yet; after a while stop the
        job hard.
        """
        followed.stop_stamp = followed.look_for_stop()
        if not followed.stop_stamp or followed.handle is None or directory_state.exit:
            return
        now = self.clock()
        waits = (
            followed.observation is not None
            and followed.observation.state is JobState.PENDING
            and not directory_state.claimed
        )  # maybe outdated
        if followed.stop_passed != followed.stop_stamp:
            self.launcher.reach.put(followed.order.directory, {"stop": followed.rundir.stop.read_bytes()})
            followed.stop_passed, followed.stop_at, followed.stop_told = followed.stop_stamp, now, 0
            self.polls.hurry(now)
        if (followed.stop_request() or {}).get("how") == "drain" and not waits:
            return
        patience_s = 2 * followed.spec.limits.grace_s + CLEANUP_S
        due = 2 if waits or now - followed.stop_at > patience_s else 1 if now - followed.stop_at > SOFTLY_S else 0
        if due > followed.stop_told:
            self.launcher.stop(followed.handle, hard=due == 2)
            followed.stop_told = due

    def _tell(self, followed: FollowedRun, settled: Settled) -> bool:
        silence = None
        if settled.state is RunState.UNREACHABLE:
            silences = (self.no_files, self.no_launcher, followed.silence)
            silence = next((silence for silence in silences if silence.reportable), None)
            if silence is None:
                return False  # a single failure is not reported, and a new Follower has not polled yet
        with contextlib.suppress(*_OWN):
            return followed.tell(settled, self.parts.clock(), silence)
        return False

    # -- ending -------------------------------------------------------------------------------------------------

    def _end(self, followed: FollowedRun, record: Mapping[str, Any]) -> None:
        """Write the exit record and schedule the run's collection."""
        whole = followed.last_word(record, self.parts.clock())
        for left in (
            followed.rundir.environment,
            followed.rundir.far / "environment",
        ):  # nobody read it, and it holds secrets
            with contextlib.suppress(OSError):
                left.unlink()
        failpoint("follower.before_exit_record")
        write_json(followed.rundir.exit_record, whole)
        failpoint("follower.after_exit_record")
        del self.runs[followed.spec.run]
        self.departing = True
        if record["ending"] in (Ending.LOST.value, Ending.LAUNCH_FAILED.value):
            with contextlib.suppress(*_OWN):
                events.append(followed.rundir.events, record["ending"], reason=record.get("reason", ""))
        followed.end_log_session()
        with contextlib.suppress(OSError):
            if collector := collect_later(followed.rundir, self.parts.environ):
                self.collectors.append(collector)

    def _depart(self) -> None:
        """Have the launcher forget the jobs of recorded runs, and stop those whose run directories were removed."""
        if not self.departing:
            return
        for handle, rundir in self.departures.over():
            if rundir.removed:
                self.launcher.stop(handle, hard=True)
            with contextlib.suppress(*_OWN):
                told = self.launcher.forget(handle)
                if told and not rundir.removed:
                    events.append(rundir.events, "freed", text=told)
            self.departures.drop(handle.run)
        self.departing = False
