"""Brings runs at other targets up to date: whoever looks at one submits it, asks about it, mirrors and ends it.

No process is there for this alone. A look holds the lock of each of its runs, and all that is known from look to look
lies in the run directory, so a kill at any instruction loses nothing: the next look goes on.

    looked         held by flock by who looks; its mtime is the time of the last look
    order.json     the target, and the job
    observed.json  what was seen last, and what is remembered for the next look

The exit record is written once, after the remote one and all other files of the run have arrived.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.keys import seconds
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
from autoresearch.errors import AutoresearchError
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.far_run import FarRun
from autoresearch.lab.remote.reconcile import Settled, settle
from autoresearch.lab.remote_files import mirror as mirroring
from autoresearch.lab.remote_files.download import gather
from autoresearch.lab.remote_files.upload import ship
from autoresearch.records import events, order_file
from autoresearch.records.files import FULL, locked, read_json, write_json
from autoresearch.records.order_file import Order
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint

LEAST_S = 1.0  # what was looked at so recently is not looked at again by a command
ANSWER_S = 5.0  # a command that shows what is known waits no longer for its targets
LOOKS_S = (0.2, 4.0)  # between two looks of who waits: fastest, slowest
POLLS_S = (2.0, 15.0)  # between two questions to the launcher: fastest, slowest
LOAD = 20.0  # times its duration pass between two looks: one that takes a second is made every 20 s ...
COSTLY_S = 60.0  # ... but no look waits longer than this for its cost
QUIET = 0.1  # of the time since a run's state changed passes between two questions to its launcher
HELD_S = 3600.0  # who has looked at a run for so long was stopped (Ctrl-Z): others look again
CATCH_UP_S = 20.0  # longest series of looks that fetch what came during a long silence
SUBMITTING_S = 2.0  # longest series of submits before the other runs are looked at again
PENDING_LIMIT_S = 24 * 3600.0
SOFTLY_S = 5.0  # a Runner that has not reacted to its stop request after so long is signalled
CLEANUP_S = 150.0  # beside twice the grace period, what a Runner may take to stop

_OWN = (AutoresearchError, OSError)
_UNFORESEEN = (AttributeError, LookupError, TypeError, ValueError)
_ENDINGS = tuple(Ending)


def refresh(rundirs: Iterable[RunDir], parts: Parts, *, at_most_s: float = ANSWER_S) -> None:
    """Look at the unfinished runs among these that are at other targets, at all targets side by side.

    Returns after `at_most_s` at the latest; a target that is slower is looked at further as long as this process lives.
    Raises nothing: a target that does not answer is written down as unreachable.
    """
    targets: dict[str, list[RunDir]] = {}
    for rundir in rundirs:
        if not rundir.exit_record.exists() and rundir.order.exists():
            order = order_file.read(rundir)
            targets.setdefault(order.place.key if order else "", []).append(rundir)
    looks = [(Refresher(parts).look, (far_runs,)) for far_runs in targets.values()]
    threads = [threading.Thread(target=look, args=args, daemon=True) for look, args in looks]
    for thread in threads:
        thread.start()
    until = time.monotonic() + at_most_s
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


@contextlib.contextmanager
def kept_fresh(rundirs: Callable[[], Iterable[RunDir]], parts: Parts) -> Iterator[Callable[[], None]]:
    """While the block runs, a thread looks at these runs again and again; yields what makes it look at once.

    They should be at one target: one that does not answer holds up the others.
    """
    woken, left = threading.Event(), threading.Event()

    def look() -> None:
        refresher, pause = Refresher(parts), 0.0
        while not left.is_set():
            began = time.monotonic()
            news = refresher.look(rundirs(), within_s=pause, patient=True)
            gap = LOOKS_S[0] if news else min(max(pause, LOOKS_S[0]) * 1.5, LOOKS_S[1])
            most = LOOKS_S[1] if news else COSTLY_S  # a run that was just sent is looked at soon
            pause = max(gap, min(LOAD * (time.monotonic() - began), most))
            if woken.wait(pause):
                woken.clear()
                pause = 0.0

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield woken.set
    finally:
        left.set()
        woken.set()
        thread.join(LEAST_S)  # not longer: a target that does not answer holds up no end


class Refresher:
    """Looks at runs; it keeps the launchers between its looks. For one thread."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.launchers: dict[str, JobLauncher] = {}

    def look(self, rundirs: Iterable[RunDir], *, within_s: float = LEAST_S, patient: bool = False) -> bool:
        """Look at those at other targets that nobody has looked at within `within_s` and nobody looks at now.

        `patient`: their launcher is asked less and less while nothing happens; else one that did not answer is asked
        again at once. Returns whether there was news. Raises nothing.
        """
        news = False
        with contextlib.ExitStack() as locks:
            targets: dict[str, list[FarRun]] = {}
            # of two at once, one takes all runs of both; who was stopped while it took them is not waited for
            with locked(self.parts.index.directory / "looking", blocking=False):
                for rundir in rundirs:
                    with contextlib.suppress(*_OWN):  # a damaged or removed run must not affect the others
                        if far_run := self._taken(rundir, within_s, patient, locks):
                            targets.setdefault(far_run.order.place.key, []).append(far_run)
            for far_runs in targets.values():
                try:
                    news = self._look_at_target(far_runs, patient) or news
                except _UNFORESEEN as error:  # it must be seen, and not end the looks
                    for far_run in far_runs:
                        fault = Unreachable(f"an answer that was not understood: {error!r}", code="internal")
                        _tell_silence(far_run, fault, self.parts.clock())
        return news

    def _taken(self, rundir: RunDir, within_s: float, patient: bool, locks: contextlib.ExitStack) -> FarRun | None:
        """The run with its lock held; None if there is nothing to look at."""
        if rundir.exit_record.exists() or not rundir.order.exists() or not rundir.spec.exists():
            return None
        fd = os.open(rundir.looked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        locks.callback(os.close, fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if self.parts.clock() - os.fstat(fd).st_mtime > HELD_S:
                rundir.looked.unlink(missing_ok=True)  # the next look makes another one
            return None
        now = self.parts.clock()  # not before: a look that ended in between would be younger
        known, last = order_file.observed(rundir), os.fstat(fd).st_mtime
        answered = known is not None and (patient or known.state != RunState.UNREACHABLE.value)
        if rundir.exit_record.exists() or (answered and 0 <= now - last < within_s):
            return None
        os.utime(fd, (now, now))
        order = order_file.read(rundir)
        if order is None:
            reason = f"{rundir.order} is damaged"
            order_file.observe(rundir, order_file.Observed(RunState.UNREACHABLE.value, now, reason))
            return None
        return FarRun.open(rundir, order, known, fd, last)

    def _look_at_target(self, far_runs: Sequence[FarRun], patient: bool) -> bool:
        try:
            launcher = self._launcher(far_runs[0].order)
        except _OWN as error:
            for far_run in far_runs:
                _tell_silence(far_run, error, self.parts.clock())
            return False
        return _Look(self.parts, launcher, patient).at(far_runs)

    def _launcher(self, order: Order) -> JobLauncher:
        key = order.place.key
        if key not in self.launchers:
            self.launchers[key] = self.parts.launcher_for(order.place, self.parts.environ)
        return self.launchers[key]


class _Look:
    """One look at runs of one target, whose locks are held."""

    def __init__(self, parts: Parts, launcher: JobLauncher, patient: bool) -> None:
        self.parts, self.launcher, self.patient = parts, launcher, patient

    @property
    def now(self) -> float:
        """Wall clock."""
        return self.parts.clock()

    def at(self, far_runs: Sequence[FarRun]) -> bool:
        """Look at these; returns whether something is new."""
        submitted = [far_run for far_run in far_runs if far_run.order.handle is not None]
        news = False
        if submitted:
            until = time.monotonic() + CATCH_UP_S
            while (more := self._look(submitted)) and time.monotonic() < until:
                submitted = more
            news = any(far_run.news for far_run in far_runs)
        until = time.monotonic() + SUBMITTING_S
        ordered = [far_run for far_run in far_runs if far_run.order.handle is None]
        for far_run in sorted(ordered, key=lambda one: one.memory.failures):  # last those that got no answer before
            news = self._submit_or_wait(far_run) or news
            if time.monotonic() >= until:
                break
        return news

    # -- submitting ---------------------------------------------------------------------------------------------

    def _submit_or_wait(self, far_run: FarRun) -> bool:
        if not far_run.held:
            return False
        try:
            self._submit(far_run)
        except (Unreachable, *_OWN) as error:
            far_run.memory.failures += 1
            _tell_silence(far_run, error, self.now)
            return False
        return True

    def _submit(self, far_run: FarRun) -> None:
        rundir, stop = far_run.rundir, read_json(far_run.rundir.stop)
        if stop is not None and far_run.order.submitting is None:
            why = str(stop.get("reason") or "a stop was requested")
            self._end(far_run, {"ending": "stopped", "cause": stop.get("cause") or "stop_request", "reason": why})
            return
        try:
            far_run.order, job = self._ship(far_run)
            if stop is not None:  # a look was killed between submit and note: there may be a job to find
                self.launcher.reach.put(far_run.order.directory, {"stop": rundir.stop.read_bytes()})
            far_run.order = replace(far_run.order, submitting=far_run.order.submitting or self.now)
            order_file.write(rundir, far_run.order)
            failpoint("refresh.submitting")
            handle = self.launcher.submit(job)
        except Declined as no:
            reason = f"{no.reason}; {no.hint}" if no.hint else no.reason
            with contextlib.suppress(Unreachable):  # remove what was sent
                gather(far_run.recorded, far_run.order, self.launcher.reach)
            self._end(far_run, {"ending": "launch_failed", "cause": no.code, "reason": reason})
            return
        failpoint("refresh.submitted")
        far_run.note_submitted(handle, self.now)
        failpoint("refresh.noted")
        far_run.tell(Settled(RunState.STARTING), self.now)

    def _ship(self, far_run: FarRun) -> tuple[Order, Job]:
        """Ship the files. What prevents it here or there (a full disk) is final, unless a job may exist already."""
        try:
            return ship(far_run.recorded, far_run.order, self.launcher.reach)
        except (Declined, *_OWN) as error:
            silent = _silence(error)
            if far_run.order.submitting is None:
                raise Declined(silent.reason, code=silent.code, hint=silent.hint) from error
            raise silent from error

    # -- asking -------------------------------------------------------------------------------------------------

    def _poll(self, far_runs: Sequence[FarRun]) -> None:
        """Ask the launcher once for all, when it is time for one of them."""
        if not any(self._poll_is_due(far_run) for far_run in far_runs):
            return
        try:
            answers = self.launcher.poll([far_run.order.handle for far_run in far_runs if far_run.order.handle])
        except (Unreachable, Declined, *_OWN) as error:
            for far_run in far_runs:
                far_run.memory.answer, far_run.silence = None, _silence(error)
            return
        for far_run in far_runs:
            far_run.memory.answer = answers.get(far_run.spec.run, Observation(JobState.UNKNOWN))
            far_run.memory.polled = self.now

    def _poll_is_due(self, far_run: FarRun) -> bool:
        asked = far_run.order.place.options.get("poll")
        least, most = (seconds(asked), seconds(asked)) if asked else POLLS_S
        quiet_s = self.now - (far_run.seen.since if far_run.seen else 0.0)
        gap_s = min(max(least, QUIET * quiet_s), most) if self.patient and not far_run.memory.hurry else least
        return far_run.memory.answer is None or not 0 <= self.now - far_run.memory.polled < gap_s

    def _look(self, far_runs: Sequence[FarRun]) -> list[FarRun]:
        """Look at the remote directories of all at once; those of which there is more to fetch."""
        wants = [Want(far_run.spec.run, far_run.order.directory, far_run.mirror.had) for far_run in far_runs]
        try:
            found = self.launcher.reach.look(wants)
        except (Unreachable, *_OWN) as error:
            for far_run in far_runs:
                _tell_silence(far_run, error, self.now)
            return []
        self._poll(far_runs)
        states = {far_run.spec.run: found.get(far_run.spec.run, DirectoryState(there=False)) for far_run in far_runs}
        well = [far_run for far_run in far_runs if self._advance(far_run, states[far_run.spec.run])]
        return [far_run for far_run in well if states[far_run.spec.run].more]

    def _advance(self, far_run: FarRun, directory_state: DirectoryState) -> bool:
        """Take in what was seen of one run; False if that failed. Its errors must not affect the others."""
        try:
            self._settle(far_run, directory_state)
            return True
        except (Unreachable, Declined) as silent:
            _tell_silence(far_run, silent, self.now)
        except _OWN as error:  # a full disk, a removed directory: the next look tries again
            state = RunState.RUNNING if directory_state.claimed else RunState.STARTING
            with contextlib.suppress(*_OWN):
                far_run.tell(Settled(state, f"what comes back cannot be written here: {error}"), self.now)
        return False

    def _settle(self, far_run: FarRun, directory_state: DirectoryState) -> None:
        if not far_run.held:
            return
        if far_run.memory.record:  # the look that settled it was killed before it had written the exit record
            self._write_end(far_run, far_run.memory.record)
            return
        if directory_state.exit.get("ending") not in _ENDINGS:  # a damaged file, or a foreign one of that name
            directory_state = replace(directory_state, exit={})
        self._pass_on_stop(far_run, directory_state)  # first: it needs no disk space here
        far_run.news = far_run.mirror.take(directory_state) or far_run.news
        if directory_state.more:  # the rest comes with the next look, before any exit record
            return
        settled = settle(
            far_run.memory,
            directory_state,
            far_run.memory.answer,
            self.now,
            pending_limit_s=seconds(far_run.order.place.options.get("pending_limit", PENDING_LIMIT_S)),
            stop_request=read_json(far_run.rundir.stop),
        )
        far_run.memory.hurry = settled.ask
        if settled.record is None:
            far_run.tell(settled, self.now, far_run.silence)
            return
        if settled.remove and far_run.order.handle:
            self.launcher.stop(far_run.order.handle, hard=True)
        if not gather(far_run.recorded, far_run.order, self.launcher.reach):
            far_run.tell(Settled(RunState.RUNNING, "it is over, its results are copied"), self.now)
            far_run.news = True
            return
        if far_run.seen and far_run.seen.state == RunState.UNREACHABLE.value:
            # it began and ended before it could be looked at
            far_run.tell(Settled(RunState.RUNNING, "it is over"), self.now)
        # the launcher's own record has no times of another clock
        self._end(far_run, mirroring.in_our_time(settled.record, directory_state.ahead_s))

    def _pass_on_stop(self, far_run: FarRun, directory_state: DirectoryState) -> None:
        """Pass a stop request to the Runner, or to the launcher if no Runner runs yet; later stop the job hard."""
        stamp, memory, handle = _stamp(far_run.rundir.stop), far_run.memory, far_run.order.handle
        if not stamp or handle is None or directory_state.exit:
            return
        pending = far_run.memory.answer is not None and far_run.memory.answer.state is JobState.PENDING
        waits = pending and not directory_state.claimed
        if memory.stop_passed != stamp:
            self.launcher.reach.put(far_run.order.directory, {"stop": far_run.rundir.stop.read_bytes()})
            memory.stop_passed, memory.stop_at, memory.stop_told = stamp, self.now, 0
        patience_s, passed_s = 2 * far_run.spec.limits.grace_s + CLEANUP_S, self.now - memory.stop_at
        due = 2 if waits or passed_s > patience_s else 1 if passed_s > SOFTLY_S else 0
        if due > memory.stop_told:
            self.launcher.stop(handle, hard=due == 2)
            memory.stop_told = due
            far_run.memory.polled = 0.0

    # -- ending -------------------------------------------------------------------------------------------------

    def _end(self, far_run: FarRun, record: Mapping[str, Any]) -> None:
        """Write the exit record, after the launcher has forgotten the job."""
        far_run.memory.record = far_run.last_word(record, self.now)
        if far_run.order.handle is not None:
            far_run.note()
        self._write_end(far_run, far_run.memory.record)

    def _write_end(self, far_run: FarRun, record: Mapping[str, Any]) -> None:
        rundir = far_run.rundir
        for left in (rundir.environment, rundir.far / "environment"):  # nobody read it, and it holds secrets
            with contextlib.suppress(OSError):
                left.unlink()
        with contextlib.suppress(Unreachable, Declined, *_OWN):  # what the launcher keeps of it, stays there
            if far_run.order.handle is not None:
                self.launcher.forget(far_run.order.handle)
        failpoint("refresh.before_exit_record")
        write_json(rundir.exit_record, record)
        failpoint("refresh.after_exit_record")
        far_run.news = True
        if record["ending"] in (Ending.LOST.value, Ending.LAUNCH_FAILED.value):
            with contextlib.suppress(*_OWN):
                events.append(rundir.events, record["ending"], reason=record.get("reason", ""))


def _tell_silence(far_run: FarRun, error: Exception, wall: float) -> None:
    far_run.memory.after_silence(wall)
    with contextlib.suppress(*_OWN):
        far_run.tell(Settled(RunState.UNREACHABLE), wall, _silence(error))


def _silence(error: Exception) -> Unreachable:
    """The same as no answer: a refusal of anything but a submit decides nothing."""
    if isinstance(error, Unreachable):
        return error
    if isinstance(error, Declined):
        return Unreachable(error.reason, code=error.code, hint=error.hint)
    if isinstance(error, AutoresearchError):
        return Unreachable(error.message, code=error.code, hint=error.hint)
    full = isinstance(error, OSError) and error.errno in FULL
    return Unreachable(str(error), code="disk_full" if full else "launcher_failed")


def _stamp(path: Path) -> int:
    """Modification time of a file in ns; 0 without one."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
