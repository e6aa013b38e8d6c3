"""Failure: why a run ended badly, as far as its own output and the way it ended show; its kind says what one does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autoresearch.core.diagnosis.log_lines import TracebackFrame
from autoresearch.core.run.ending import Ending

_FROM_OUTSIDE = frozenset({1, 9, 15})  # HUP, KILL, TERM: the signals sent by commands that kill by name
_OURS = (Ending.FIRST_STEP_TIMEOUT, Ending.STALLED, Ending.MAX_TIME, Ending.LAUNCH_FAILED, Ending.FINISHED)
MAX_LINE = 300  # characters of the proving line that are kept


class FailureKind(StrEnum):
    """What one does about a failure; its value is written into the ledger."""

    MEMORY = "memory"  # of a GPU or the host: it did not fit
    MACHINE = "machine"  # network, disk, scheduler, node, GPU, port, or a peer that fell out
    DIVERGED = "diverged"
    HANG = "hang"
    CANCELLED = "cancelled"
    PROGRAM = "program"  # what the code, its settings, data or packages say
    UNKNOWN = "unknown"
    # what the run's records show, and no line of its log
    NOT_SHOWN = "not_shown"  # a path of the checkout that its worktree does not show, or not for writing
    EVALUATION_FAILED = "evaluation_failed"
    METRIC_UNREAD = "metric_unread"
    NO_STEP = "no_step"
    ENDED_EARLY = "ended_early"
    LEFT_TRAINING = "left_training"
    CONSTRAINT_BROKEN = "constraint_broken"
    CONSTRAINT_UNREAD = "constraint_unread"


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Position of a line in the log: its number from 1 and its byte offset; 0 and -1 where unknown."""

    number: int = 0
    offset: int = -1


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind, and the line that shows it, stripped; those that a reader returns are masked, then cut at MAX_LINE."""

    kind: FailureKind
    line: str
    position: LogPosition = LogPosition()
    times: int = 1  # how often it was printed since the last step
    frame: TracebackFrame | None = None  # of an exception: the last frame in the user's own code, else the last one
    process: str = ""  # which of several processes printed it
    note: str = ""  # what the line proves beyond its kind
    is_sign: bool = False  # something else failed first, and no line says what

    @property
    def where(self) -> str:
        """The frame, for people; "" without one."""
        if self.frame is None:
            return ""
        return str(self.frame) if self.frame.is_own else f"{self.frame} (an installed package)"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The root cause, and other failures."""

    cause: Failure | None = None
    also: tuple[Failure, ...] = ()
    digest: tuple[str, ...] = ()  # lines for somebody who judges the cause
    traceback: str = ""  # the last one in the log


def killed_from_outside(ending: Ending, cause: str, returncode: int | None) -> bool:
    """Whether a signal from outside autoresearch ended the trainer or its Runner. returncode: 128 + n for signal n."""
    if ending in _OURS:
        return False
    if ending is Ending.STOPPED:
        return cause in ("sigterm", "sigquit")
    return ending is Ending.LOST or (returncode or 0) - 128 in _FROM_OUTSIDE


def with_the_end(failure: Failure | None, ending: Ending, *, killed: bool) -> Failure | None:
    """The failure to report, from the root cause found in the log and the way the run ended.

    killed: see `killed_from_outside`. What an interrupted trainer prints is no cause, and an engine goes with its
    Runner. A run that was ended as stalled, with no cause in its log, hung.
    """
    if failure is not None:
        interrupted = failure.line.startswith("KeyboardInterrupt") and (killed or ending is Ending.STOPPED)
        if interrupted or (failure.is_sign and ending is Ending.LOST):
            failure = None
    if failure is None and ending is Ending.STALLED:
        return Failure(FailureKind.HANG, "")
    return failure
