"""Combines all that is known about one remote run into its state or its ending. The clock is passed in.

Evidence in order of precedence: the exit record; a living Runner; the launcher's answer; and only after a while, that
neither knows the run. An unreachable target is no evidence: it decides nothing, and all timers restart.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import DirectoryState, JobState, Observation
from autoresearch.core.run.spec import RunState
from autoresearch.records import order_file
from autoresearch.records.files import read_json
from autoresearch.records.rundir import RunDir
from autoresearch.runner.text import clean_line

# What the local files say of a remote run: its target, job, why it waits, since when the target is unreachable.


OLD_S = 60.0  # how old the last look is, is told from then on


def about(rundir: RunDir) -> dict[str, Any]:
    """The additional fields of a remote run; {} for a local one.

    queue_s: seconds it waited, or has waited, before its Runner began; they do not count as run time. seen: when it was
    last looked at. Other fields may be None.
    """
    order = order_file.read(rundir)
    if order is None:
        return {}
    seen = order_file.observed(rundir)
    started = (read_json(rundir.runner) or {}).get("started")
    submitted = order.submitted or order.ordered
    silent = seen is not None and seen.state == RunState.UNREACHABLE.value
    return {
        "place": order.place.name,
        "launcher": str(order.place.kind),
        "job": order.handle.native if order.handle else None,
        "node": clean_line(seen.node if seen else "") or None,
        "reason": clean_line(seen.reason if seen else "") or None,
        "unreachable_since": seen.since if silent and seen else None,
        "hint": clean_line(seen.hint if silent and seen else "") or None,
        "seen": order_file.last_look(rundir),
        "queue_s": round(max(0.0, (started if isinstance(started, int | float) else time.time()) - submitted), 3),
        "gpu_count": order.gpus,
    }


def clause(fields: dict[str, Any], run_state: RunState, *, now: float | None = None) -> str:
    """The same as a clause for people: `slurm job 17 on n3`, `..., waits since 90 s: Resources`."""
    if not fields:
        return ""
    now = time.time() if now is None else now
    job = f" job {fields['job']}" if fields["job"] else ", not submitted yet"
    words = f"{fields['place']}{job}" + (f" on {fields['node']}" if fields["node"] else "")
    why = f": {fields['reason']}" if fields["reason"] else ""
    if fields["unreachable_since"] is not None:
        hint = f" ({fields['hint']})" if fields["hint"] else ""
        return f"{words}, no answer since {max(0.0, now - fields['unreachable_since']):.0f} s{why}{hint}"
    if fields["seen"] is not None and now - fields["seen"] > OLD_S:
        words += f", seen {now - fields['seen']:.0f} s ago"
    if run_state in (RunState.PENDING, RunState.STARTING, RunState.STOPPING) and fields["reason"]:
        return f"{words}, waits since {fields['queue_s']:.0f} s{why}"
    return words


LATE_S = 10.0  # a record may appear this late on a network file system
SAYS_S = 15.0  # the launcher may take this long to report why it signalled a Runner
BEATS_S = 60.0  # a Runner touches its lock more often than this
FROZEN_S = 900.0  # ... and without a touch for so long it is dead, whatever its launcher says
START_S = 3600.0  # a job that runs this long without a sign of its Runner (setup takes minutes) does not see its files
HOPELESS_S = 60.0  # a reason to wait for ever may pass: a partition is changed, an image is pushed
UNKNOWN_S = 60.0  # a job unknown to the launcher may just not be listed yet
KILLED = (137, 143)  # exit codes of a trainer killed by a signal from outside
SIGNALLED = ("sigterm", "sigint", "sigquit")  # causes in an exit record that name a signal, but not who sent it


@dataclass(slots=True)
class Memory:
    """What is kept from look to look; times are of this machine's wall clock, in seconds."""

    answer: Observation | None = None  # the launcher's last; None: not asked yet, or silent
    polled: float = 0.0  # when that came
    hurry: bool = False  # the launcher's answer decides: it is asked soon
    job_state: JobState | None = None  # by the launcher, and since when it says so
    job_state_since: float = 0.0
    pending_since: float | None = None  # since it was submitted, unreachable times included
    recorded_since: float | None = None
    beat: float | None = None
    beat_at: float | None = None
    hopeless_since: float | None = None
    stop_passed: int = 0  # modification time of the stop request that was passed on last, in ns
    stop_at: float = 0.0  # when that was
    stop_told: int = 0  # what the launcher was asked for: 1 a soft stop, 2 a hard one
    failures: int = 0  # to submit it
    record: dict[str, Any] | None = None  # its exit record, to be written next

    def after_silence(self, now: float) -> None:
        """Restart the timers: the target did not answer."""
        self.job_state = self.hopeless_since = None
        self.beat_at = None if self.beat_at is None else now


@dataclass(frozen=True, slots=True)
class Settled:
    """The state of a run. `record`: the fields of its exit record; None while it lives."""

    state: RunState
    reason: str = ""
    record: dict[str, Any] | None = None
    remove: bool = False  # end the job for good: it can no longer succeed
    ask: bool = False  # the launcher's answer decides: poll it soon


def settle(
    memory: Memory,
    directory_state: DirectoryState | None,
    observation: Observation | None,
    now: float,
    *,
    pending_limit_s: float,
    stop_request: Mapping[str, Any] | None = None,
) -> Settled:
    """Decide from one look and one poll (None: there was no answer); updates `memory`.

    stop_request: the one that was passed on, if any.
    """
    if directory_state is None:
        memory.after_silence(now)
        return Settled(RunState.UNREACHABLE)
    evidence = _Evidence(memory, directory_state, observation, now, pending_limit_s, stop_request)
    evidence.remember()
    return evidence.settled()


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What is known of one run at a moment."""

    memory: Memory
    directory_state: DirectoryState
    observation: Observation | None
    now: float
    pending_limit_s: float
    stop_request: Mapping[str, Any] | None

    def remember(self) -> None:
        """Start and stop the timers of `memory`."""
        memory, now, said = self.memory, self.now, self.observation.state if self.observation else None

        def since(before: float | None, holds: bool) -> float | None:
            return (now if before is None else before) if holds else None

        if said is not memory.job_state:
            memory.job_state, memory.job_state_since = said, now
        memory.recorded_since = since(memory.recorded_since, bool(self.directory_state.exit))
        if self.observation is not None and self.observation.hopeless is not None:
            memory.hopeless_since = since(memory.hopeless_since, self.observation.hopeless)
        if said is JobState.PENDING and memory.pending_since is None:
            memory.pending_since = now
        if self.directory_state.beat is not None and self.directory_state.beat != memory.beat:
            memory.beat, memory.beat_at = self.directory_state.beat, now

    def settled(self) -> Settled:
        """The state of the run."""
        seen, observation = self.directory_state, self.observation
        if seen.exit:
            return self._recorded()
        beats = self.claimed and self.memory.beat_at is not None and self._for(self.memory.beat_at) < BEATS_S
        over = observation is not None and observation.state is JobState.OVER
        ended = over and observation is not None and observation.ending
        if seen.alive or (beats and not ended):
            return Settled(RunState.EVALUATING if seen.evaluating else RunState.RUNNING, ask=over)
        if observation is None:
            return Settled(RunState.UNREACHABLE)
        if observation.state is JobState.PENDING:
            return self._pending(observation)
        if over:
            return self._over(observation)
        return self._running() if observation.state is JobState.RUNNING else self._unknown()

    @property
    def claimed(self) -> bool:
        """Whether a Runner was started in its directory."""
        return self.directory_state.claimed

    @property
    def begun(self) -> RunState:
        """The state of a run that lives, for all that is known."""
        return RunState.RUNNING if self.claimed else RunState.STARTING

    def _for(self, then: float | None) -> float:
        return 0.0 if then is None else self.now - then

    def _recorded(self) -> Settled:
        """The exit record, unless the launcher knows better what ended it (preempted, cancelled, the node failed)."""
        record, observation = dict(self.directory_state.exit), self.observation
        foreign = _by_a_signal(record) and not self.stop_request
        over = observation is not None and observation.state is JobState.OVER
        if foreign and not over and self._for(self.memory.recorded_since) < SAYS_S:
            return Settled(RunState.RUNNING, "it was ended by a signal; its launcher is asked why", ask=True)
        if foreign and observation is not None and observation.outranks and observation.ending is not None:
            record |= {"ending": observation.ending.value, "cause": observation.cause}
            record["reason"] = observation.reason or record.get("reason", "")
        return Settled(RunState.ENDED, record=record)

    def _pending(self, observation: Observation) -> Settled:
        waited, why = self._for(self.memory.pending_since), observation.reason or observation.word
        hopeless = self._for(self.memory.hopeless_since) >= HOPELESS_S
        if self.claimed or not (hopeless or waited >= self.pending_limit_s):  # claimed: it was suspended
            return Settled(RunState.PENDING, why)
        if hopeless:
            return _ended(Ending.LAUNCH_FAILED, "never_starts", f"it would wait for ever: {why}", remove=True)
        reason = f"it waited for {waited:.0f} s, the pending limit: {why}"
        return _ended(Ending.LAUNCH_FAILED, "pending_limit", reason, remove=True)

    def _over(self, observation: Observation) -> Settled:
        if self.stop_request and not self.claimed:
            return self._stopped(self.stop_request)
        if self._for(self.memory.job_state_since) < LATE_S:
            return Settled(self.begun, "its exit record is waited for")
        if self.stop_request:
            return self._stopped(self.stop_request)
        ending = observation.ending or (Ending.LOST if self.claimed else Ending.LAUNCH_FAILED)
        word = observation.word or "that it is over"
        reason = observation.reason or f"the launcher says {word}, and there is no exit record"
        return _ended(ending, observation.cause or "no_exit_record", reason, returncode=observation.returncode)

    def _running(self) -> Settled:
        if self.claimed and self._for(self.memory.beat_at) >= FROZEN_S:  # a restarted Ray head may say so for ever
            minutes = f"{FROZEN_S / 60:.0f} minutes"
            reason = f"the launcher says that it runs, and its Runner gave no sign of life for {minutes}"
            return _ended(Ending.LOST, "no_heartbeat", reason, remove=True)
        if not self.claimed and self._for(self.memory.job_state_since) >= START_S:
            since = f"the job runs since {START_S:.0f} s and its Runner never showed"
            reason = f"{since}: the run directory is not seen there"
            return _ended(Ending.LAUNCH_FAILED, "not_shared", reason, remove=True)
        return Settled(self.begun)

    def _unknown(self) -> Settled:
        silent_s = self._for(self.memory.job_state_since)
        if self.stop_request and not self.claimed and silent_s >= LATE_S:
            return self._stopped(self.stop_request)
        if silent_s < UNKNOWN_S:
            return Settled(self.begun, ask=True)
        reason = "the launcher knows no such job, and its Runner never started"
        if self.claimed:
            reason = "the job no longer exists at its launcher, and its Runner gives no sign of life"
        return _ended(Ending.LOST, "job_gone", reason, remove=True)

    def _stopped(self, stop_request: Mapping[str, Any]) -> Settled:
        reason = str(stop_request.get("reason") or "a stop was requested")
        return _ended(Ending.STOPPED, str(stop_request.get("cause") or "stop_request"), reason)


def _by_a_signal(record: Mapping[str, Any]) -> bool:
    """Whether TERM, INT or KILL from outside ended the Runner's work; the record cannot say who sent it or why."""
    if record.get("ending") == Ending.STOPPED.value:
        return record.get("cause") in SIGNALLED
    return record.get("cause") == "signal" and record.get("returncode") in KILLED


def _ended(ending: Ending, cause: str, reason: str, *, returncode: int | None = None, remove: bool = False) -> Settled:
    record = {"ending": ending.value, "cause": cause, "reason": reason, "returncode": returncode}
    return Settled(RunState.ENDED, record=record, remove=remove)
