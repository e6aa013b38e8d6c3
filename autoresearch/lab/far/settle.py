"""What is known about one far run, taken together: where it stands, or how it ended. It is given its clock.

The order in which things count: the exit record; a living Runner; what the launcher says; and only after a while,
silence. Nobody answering is none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from autoresearch.core.ending import Ending
from autoresearch.core.far import JobState, Observation, Seen
from autoresearch.core.run import RunState

LATE_S = 10.0  # a record may show so late on a network file system
BEATS_S = 60.0  # a Runner touches its lock more often than that
START_S = 180.0  # a job that runs, and whose Runner has not shown so long, does not see its directory
UNKNOWN_S = 60.0  # a job that nobody knows may be one that is not listed yet


@dataclass(slots=True)
class Memory:
    """What must be remembered from look to look; durations are of one local clock, in seconds."""

    over_since: float | None = None
    unknown_since: float | None = None
    running_since: float | None = None
    pending_since: float | None = None
    beat: float | None = None
    beat_at: float | None = None
    looks_dead: int = 0
    offsets: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settled:
    """Where a run stands. `record`: the last word, in the fields of an exit record; None while it lives."""

    state: RunState
    reason: str = ""
    record: dict[str, Any] | None = None
    remove: bool = False  # the job is to be ended for good: nothing can come of it


def settle(memory: Memory, seen: Seen, said: Observation, now: float, *, pending_limit_s: float) -> Settled:
    """Decide from one look and one poll; `memory` is updated."""
    _remember(memory, seen, said, now)
    if seen.exit:
        return _recorded(memory, seen, said, now)
    beats = seen.claimed and memory.beat_at is not None and now - memory.beat_at < BEATS_S
    if seen.alive or (beats and (said.state is not JobState.OVER or said.ending is None)):
        return Settled(RunState.EVALUATING if seen.evaluating else RunState.RUNNING)
    if said.state is JobState.PENDING:
        return _pending(memory, said, now, pending_limit_s)
    if said.state is JobState.OVER:
        return _over(memory, seen, said, now)
    if said.state is JobState.RUNNING:
        return _running(memory, seen, now)
    return _unknown(memory, seen, now)


def _remember(memory: Memory, seen: Seen, said: Observation, now: float) -> None:
    def since(before: float | None, holds: bool) -> float | None:
        return (now if before is None else before) if holds else None

    memory.over_since = since(memory.over_since, said.state is JobState.OVER)
    memory.unknown_since = since(memory.unknown_since, said.state is JobState.UNKNOWN)
    memory.running_since = since(memory.running_since, said.state is JobState.RUNNING)
    memory.pending_since = since(memory.pending_since, said.state is JobState.PENDING)
    if seen.beat is not None and seen.beat != memory.beat:
        memory.beat, memory.beat_at = seen.beat, now
    memory.looks_dead = memory.looks_dead + 1 if seen.claimed and seen.alive is False and not seen.exit else 0


def _recorded(memory: Memory, seen: Seen, said: Observation, now: float) -> Settled:
    record = dict(seen.exit)
    if said.outranks and said.ending is not None:
        record |= {"ending": said.ending.value, "cause": said.cause, "reason": said.reason or record.get("reason", "")}
    return Settled(RunState.ENDED, record=record)


def _pending(memory: Memory, said: Observation, now: float, limit_s: float) -> Settled:
    waited = now - (memory.pending_since or now)
    if said.hopeless or waited >= limit_s:
        why = "it would wait for ever" if said.hopeless else f"it waited for {waited:.0f} s, the pending limit"
        return Settled(
            RunState.ENDED,
            record={
                "ending": Ending.LAUNCH_FAILED.value,
                "cause": "never_starts" if said.hopeless else "pending_limit",
                "reason": f"{why}: {said.reason or said.word}",
            },
            remove=True,
        )
    return Settled(RunState.PENDING, said.reason or said.word)


def _over(memory: Memory, seen: Seen, said: Observation, now: float) -> Settled:
    if now - (memory.over_since or now) < LATE_S:
        return Settled(RunState.RUNNING if seen.claimed else RunState.STARTING, "its exit record is waited for")
    ending = said.ending or (Ending.LOST if seen.claimed else Ending.LAUNCH_FAILED)
    reason = said.reason or f"the launcher says {said.word}, and there is no exit record"
    record = {"ending": ending.value, "cause": said.cause, "reason": reason, "returncode": said.returncode}
    return Settled(RunState.ENDED, record=record)


def _running(memory: Memory, seen: Seen, now: float) -> Settled:
    if seen.claimed and memory.looks_dead < 2:
        return Settled(RunState.RUNNING)
    if seen.claimed:
        return _lost("its Runner died without an exit record", "runner_died")
    if now - (memory.running_since or now) >= START_S:
        reason = f"the job runs since {START_S:.0f} s and its Runner never showed: the run directory is not seen there"
        record = {"ending": Ending.LAUNCH_FAILED.value, "cause": "not_shared", "reason": reason}
        return Settled(RunState.ENDED, record=record, remove=True)
    return Settled(RunState.STARTING)


def _unknown(memory: Memory, seen: Seen, now: float) -> Settled:
    if memory.looks_dead >= 2:
        return _lost("its Runner died without an exit record", "runner_died")
    if now - (memory.unknown_since or now) < UNKNOWN_S:
        return Settled(RunState.RUNNING if seen.claimed else RunState.STARTING)
    if seen.claimed:
        return _lost("the launcher knows its job no more, and its Runner gives no sign of life", "job_gone")
    return _lost("the launcher knows no such job, and its Runner never started", "job_gone")


def _lost(reason: str, cause: str) -> Settled:
    return Settled(RunState.ENDED, record={"ending": Ending.LOST.value, "cause": cause, "reason": reason})
