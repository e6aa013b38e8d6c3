"""Combines all that is known about one remote run into its state or its ending. The clock is passed in.

Evidence in order of precedence: the exit record; a living Runner; the launcher's answer; and only after a while, that
neither knows the run. An unreachable target is no evidence: it decides nothing, and all timers restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import DirectoryState, JobState, Observation
from autoresearch.core.run.spec import RunState

LATE_S = 10.0  # a record may appear this late on a network file system
SAYS_S = 15.0  # the launcher may take this long to report why it signalled a Runner
BEATS_S = 60.0  # a Runner touches its lock more often than this
FROZEN_S = 900.0  # ... and without a touch for so long it is dead, whatever its launcher says
START_S = 180.0  # a job that runs this long without a sign of its Runner does not see the run directory
UNKNOWN_S = 60.0  # a job unknown to the launcher may just not be listed yet
KILLED = (137, 143)  # exit codes of a trainer killed by a signal from outside
SIGNALLED = ("sigterm", "sigint", "sigquit")  # causes in an exit record that name a signal, but not who sent it


@dataclass(slots=True)
class Memory:
    """What is kept from look to look; times are of one local clock, in seconds."""

    over_since: float | None = None
    unknown_since: float | None = None
    running_since: float | None = None
    pending_since: float | None = None  # since it was submitted, unreachable times included
    recorded_since: float | None = None
    beat: float | None = None
    beat_at: float | None = None
    looks_dead: int = 0

    def after_silence(self, now: float) -> None:
        """Restart the timers: the target did not answer."""
        self.over_since = self.unknown_since = self.running_since = None
        self.looks_dead = 0
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
    """Decide from one look and one poll; updates `memory`.

    seen, said: None where there was no answer. asked: the stop request that was passed on, if any.
    """
    if directory_state is None:
        memory.after_silence(now)
        return Settled(RunState.UNREACHABLE)
    _remember(memory, directory_state, observation, now)
    if directory_state.exit:
        return _recorded(memory, directory_state, observation, now, stop_request)
    beats = directory_state.claimed and memory.beat_at is not None and now - memory.beat_at < BEATS_S
    over = observation is not None and observation.state is JobState.OVER
    if directory_state.alive or (
        beats and directory_state.alive is None and not (over and observation and observation.ending)
    ):
        return Settled(RunState.EVALUATING if directory_state.evaluating else RunState.RUNNING, ask=over)
    if observation is None:
        return Settled(RunState.UNREACHABLE)
    if observation.state is JobState.PENDING:
        return _pending(memory, directory_state, observation, now, pending_limit_s)
    if over:
        return _over(memory, directory_state, observation, now, stop_request)
    if observation.state is JobState.RUNNING:
        return _running(memory, directory_state, now)
    return _unknown(memory, directory_state, now, stop_request)


def _remember(memory: Memory, directory_state: DirectoryState, observation: Observation | None, now: float) -> None:
    def since(before: float | None, holds: bool) -> float | None:
        return (now if before is None else before) if holds else None

    state = observation.state if observation else None
    memory.over_since = since(memory.over_since, state is JobState.OVER)
    memory.unknown_since = since(memory.unknown_since, state is JobState.UNKNOWN)
    memory.running_since = since(memory.running_since, state is JobState.RUNNING)
    memory.recorded_since = since(memory.recorded_since, bool(directory_state.exit))
    if state is JobState.PENDING and memory.pending_since is None:
        memory.pending_since = now
    if directory_state.beat is not None and directory_state.beat != memory.beat:
        memory.beat, memory.beat_at = directory_state.beat, now
    memory.looks_dead = (
        memory.looks_dead + 1
        if directory_state.claimed and directory_state.alive is False and not directory_state.exit
        else 0
    )


def _since(then: float | None, now: float) -> float:
    return 0.0 if then is None else now - then


def _recorded(
    memory: Memory,
    directory_state: DirectoryState,
    observation: Observation | None,
    now: float,
    stop_request: Mapping[str, Any] | None,
) -> Settled:
    """The exit record, unless the launcher knows better what ended it (preempted, cancelled, the node failed)."""
    record = dict(directory_state.exit)
    over = observation is not None and observation.state is JobState.OVER
    foreign = _by_a_signal(record) and not stop_request
    if foreign and not over and _since(memory.recorded_since, now) < SAYS_S:
        return Settled(RunState.RUNNING, "it was ended by a signal; its launcher is asked why", ask=True)
    if foreign and observation is not None and observation.outranks and observation.ending is not None:
        record |= {
            "ending": observation.ending.value,
            "cause": observation.cause,
            "reason": observation.reason or record.get("reason", ""),
        }
    return Settled(RunState.ENDED, record=record)


def _by_a_signal(record: Mapping[str, Any]) -> bool:
    """Whether TERM, INT or KILL from outside ended the Runner's work; the record cannot say who sent it or why."""
    if record.get("ending") == Ending.STOPPED.value:
        return record.get("cause") in SIGNALLED
    return record.get("cause") == "signal" and record.get("returncode") in KILLED


def _pending(
    memory: Memory, directory_state: DirectoryState, observation: Observation, now: float, limit_s: float
) -> Settled:
    waited = _since(memory.pending_since, now)
    if directory_state.claimed or not (observation.hopeless or waited >= limit_s):  # claimed: it was suspended
        return Settled(RunState.PENDING, observation.reason or observation.word)
    why = "it would wait for ever" if observation.hopeless else f"it waited for {waited:.0f} s, the pending limit"
    cause = "never_starts" if observation.hopeless else "pending_limit"
    return _ended(Ending.LAUNCH_FAILED, cause, f"{why}: {observation.reason or observation.word}", remove=True)


def _over(
    memory: Memory,
    directory_state: DirectoryState,
    observation: Observation,
    now: float,
    stop_request: Mapping[str, Any] | None,
) -> Settled:
    if stop_request and not directory_state.claimed:
        return _stopped(stop_request)
    if _since(memory.over_since, now) < LATE_S:
        return Settled(
            RunState.RUNNING if directory_state.claimed else RunState.STARTING, "its exit record is waited for"
        )
    if stop_request:
        return _stopped(stop_request)
    ending = observation.ending or (Ending.LOST if directory_state.claimed else Ending.LAUNCH_FAILED)
    reason = (
        observation.reason or f"the launcher says {observation.word or 'that it is over'}, and there is no exit record"
    )
    return _ended(ending, observation.cause or "no_exit_record", reason, returncode=observation.returncode)


def _running(memory: Memory, directory_state: DirectoryState, now: float) -> Settled:
    if directory_state.claimed and memory.looks_dead >= 2:
        return _ended(Ending.LOST, "runner_died", "its Runner died without an exit record", remove=True)
    if directory_state.claimed and _since(memory.beat_at, now) >= FROZEN_S:  # a restarted Ray head may say so for ever
        reason = f"the launcher says that it runs, and its Runner gave no sign of life for {FROZEN_S / 60:.0f} minutes"
        return _ended(Ending.LOST, "no_heartbeat", reason, remove=True)
    if directory_state.claimed:
        return Settled(RunState.RUNNING)
    if _since(memory.running_since, now) >= START_S:
        reason = f"the job runs since {START_S:.0f} s and its Runner never showed: the run directory is not seen there"
        return _ended(Ending.LAUNCH_FAILED, "not_shared", reason, remove=True)
    return Settled(RunState.STARTING)


def _unknown(
    memory: Memory, directory_state: DirectoryState, now: float, stop_request: Mapping[str, Any] | None
) -> Settled:
    if memory.looks_dead >= 2:
        return _ended(Ending.LOST, "runner_died", "its Runner died without an exit record", remove=True)
    silent_s = _since(memory.unknown_since, now)
    if stop_request and not directory_state.claimed and silent_s >= LATE_S:
        return _stopped(stop_request)
    if silent_s < UNKNOWN_S:
        return Settled(RunState.RUNNING if directory_state.claimed else RunState.STARTING, ask=True)
    if directory_state.claimed:
        return _ended(
            Ending.LOST, "job_gone", "the job no longer exists at its launcher, and its Runner gives no sign of life"
        )
    return _ended(Ending.LOST, "job_gone", "the launcher knows no such job, and its Runner never started")


def _stopped(stop_request: Mapping[str, Any]) -> Settled:
    reason = str(stop_request.get("reason") or "a stop was requested")
    return _ended(Ending.STOPPED, str(stop_request.get("cause") or "stop_request"), reason)


def _ended(ending: Ending, cause: str, reason: str, *, returncode: int | None = None, remove: bool = False) -> Settled:
    record = {"ending": ending.value, "cause": cause, "reason": reason, "returncode": returncode}
    return Settled(RunState.ENDED, record=record, remove=remove)
