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
    seen: DirectoryState | None,
    said: Observation | None,
    now: float,
    *,
    pending_limit_s: float,
    asked: Mapping[str, Any] | None = None,
) -> Settled:
    """Decide from one look and one poll; updates `memory`.

    seen, said: None where there was no answer. asked: the stop request that was passed on, if any.
    """
    if seen is None:
        memory.after_silence(now)
        return Settled(RunState.UNREACHABLE)
    _remember(memory, seen, said, now)
    if seen.exit:
        return _recorded(memory, seen, said, now, asked)
    beats = seen.claimed and memory.beat_at is not None and now - memory.beat_at < BEATS_S
    over = said is not None and said.state is JobState.OVER
    if seen.alive or (beats and seen.alive is None and not (over and said and said.ending)):
        return Settled(RunState.EVALUATING if seen.evaluating else RunState.RUNNING, ask=over)
    if said is None:
        return Settled(RunState.UNREACHABLE)
    if said.state is JobState.PENDING:
        return _pending(memory, seen, said, now, pending_limit_s)
    if over:
        return _over(memory, seen, said, now, asked)
    if said.state is JobState.RUNNING:
        return _running(memory, seen, now)
    return _unknown(memory, seen, now, asked)


def _remember(memory: Memory, seen: DirectoryState, said: Observation | None, now: float) -> None:
    def since(before: float | None, holds: bool) -> float | None:
        return (now if before is None else before) if holds else None

    state = said.state if said else None
    memory.over_since = since(memory.over_since, state is JobState.OVER)
    memory.unknown_since = since(memory.unknown_since, state is JobState.UNKNOWN)
    memory.running_since = since(memory.running_since, state is JobState.RUNNING)
    memory.recorded_since = since(memory.recorded_since, bool(seen.exit))
    if state is JobState.PENDING and memory.pending_since is None:
        memory.pending_since = now
    if seen.beat is not None and seen.beat != memory.beat:
        memory.beat, memory.beat_at = seen.beat, now
    memory.looks_dead = memory.looks_dead + 1 if seen.claimed and seen.alive is False and not seen.exit else 0


def _since(then: float | None, now: float) -> float:
    return 0.0 if then is None else now - then


def _recorded(
    memory: Memory, seen: DirectoryState, said: Observation | None, now: float, asked: Mapping[str, Any] | None
) -> Settled:
    """The exit record, unless the launcher knows better what ended it (preempted, cancelled, the node failed)."""
    record = dict(seen.exit)
    told = said is not None and said.state is JobState.OVER
    foreign = _by_a_signal(record) and not asked
    if foreign and not told and _since(memory.recorded_since, now) < SAYS_S:
        return Settled(RunState.RUNNING, "it was ended by a signal; its launcher is asked why", ask=True)
    if foreign and said is not None and said.outranks and said.ending is not None:
        record |= {"ending": said.ending.value, "cause": said.cause, "reason": said.reason or record.get("reason", "")}
    return Settled(RunState.ENDED, record=record)


def _by_a_signal(record: Mapping[str, Any]) -> bool:
    """Whether TERM, INT or KILL from outside ended the Runner's work; the record cannot say who sent it or why."""
    if record.get("ending") == Ending.STOPPED.value:
        return record.get("cause") in SIGNALLED
    return record.get("cause") == "signal" and record.get("returncode") in KILLED


def _pending(memory: Memory, seen: DirectoryState, said: Observation, now: float, limit_s: float) -> Settled:
    waited = _since(memory.pending_since, now)
    if seen.claimed or not (said.hopeless or waited >= limit_s):  # claimed: it was suspended
        return Settled(RunState.PENDING, said.reason or said.word)
    why = "it would wait for ever" if said.hopeless else f"it waited for {waited:.0f} s, the pending limit"
    cause = "never_starts" if said.hopeless else "pending_limit"
    return _ended(Ending.LAUNCH_FAILED, cause, f"{why}: {said.reason or said.word}", remove=True)


def _over(
    memory: Memory, seen: DirectoryState, said: Observation, now: float, asked: Mapping[str, Any] | None
) -> Settled:
    if asked and not seen.claimed:
        return _stopped(asked)
    if _since(memory.over_since, now) < LATE_S:
        return Settled(RunState.RUNNING if seen.claimed else RunState.STARTING, "its exit record is waited for")
    if asked:
        return _stopped(asked)
    ending = said.ending or (Ending.LOST if seen.claimed else Ending.LAUNCH_FAILED)
    reason = said.reason or f"the launcher says {said.word or 'that it is over'}, and there is no exit record"
    return _ended(ending, said.cause or "no_exit_record", reason, returncode=said.returncode)


def _running(memory: Memory, seen: DirectoryState, now: float) -> Settled:
    if seen.claimed and memory.looks_dead >= 2:
        return _ended(Ending.LOST, "runner_died", "its Runner died without an exit record", remove=True)
    if seen.claimed and _since(memory.beat_at, now) >= FROZEN_S:  # a restarted Ray head may say so for ever
        reason = f"the launcher says that it runs, and its Runner gave no sign of life for {FROZEN_S / 60:.0f} minutes"
        return _ended(Ending.LOST, "no_heartbeat", reason, remove=True)
    if seen.claimed:
        return Settled(RunState.RUNNING)
    if _since(memory.running_since, now) >= START_S:
        reason = f"the job runs since {START_S:.0f} s and its Runner never showed: the run directory is not seen there"
        return _ended(Ending.LAUNCH_FAILED, "not_shared", reason, remove=True)
    return Settled(RunState.STARTING)


def _unknown(memory: Memory, seen: DirectoryState, now: float, asked: Mapping[str, Any] | None) -> Settled:
    if memory.looks_dead >= 2:
        return _ended(Ending.LOST, "runner_died", "its Runner died without an exit record", remove=True)
    silent_s = _since(memory.unknown_since, now)
    if asked and not seen.claimed and silent_s >= LATE_S:
        return _stopped(asked)
    if silent_s < UNKNOWN_S:
        return Settled(RunState.RUNNING if seen.claimed else RunState.STARTING, ask=True)
    if seen.claimed:
        return _ended(
            Ending.LOST, "job_gone", "the launcher knows its job no more, and its Runner gives no sign of life"
        )
    return _ended(Ending.LOST, "job_gone", "the launcher knows no such job, and its Runner never started")


def _stopped(asked: Mapping[str, Any]) -> Settled:
    reason = str(asked.get("reason") or "a stop was requested")
    return _ended(Ending.STOPPED, str(asked.get("cause") or "stop_request"), reason)


def _ended(ending: Ending, cause: str, reason: str, *, returncode: int | None = None, remove: bool = False) -> Settled:
    record = {"ending": ending.value, "cause": cause, "reason": reason, "returncode": returncode}
    return Settled(RunState.ENDED, record=record, remove=remove)
