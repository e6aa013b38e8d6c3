"""Failure: why a run ended badly, as far as its own output and the way it ended show."""

from __future__ import annotations

from dataclasses import dataclass

from autoresearch.core.diagnosis.failure_kinds import FailureKind, table
from autoresearch.core.diagnosis.tracebacks import TracebackFrame
from autoresearch.core.run.ending import Ending

_FROM_OUTSIDE = frozenset({1, 9, 15})  # HUP, KILL, TERM: the signals sent by commands that kill by name
_OURS = (Ending.FIRST_STEP_TIMEOUT, Ending.STALLED, Ending.MAX_TIME, Ending.LAUNCH_FAILED, Ending.FINISHED)
MAX_LINE = 300  # characters of the proving line that are kept


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Position of a line in the log: its number from 1 and its byte offset; 0 and -1 where unknown."""

    number: int = 0
    offset: int = -1


@dataclass(frozen=True, slots=True)
class Failure:
    """A class, and the line that proves it (stripped, at most MAX_LINE characters)."""

    kind: FailureKind
    line: str
    position: LogPosition = LogPosition()
    times: int = 1  # how often it was printed since the last step
    frame: TracebackFrame | None = None  # of an exception: the last frame in the user's own code, else the last one
    process: str = ""  # which of several processes printed it
    note: str = ""  # what the class does not say
    certain: bool = True  # False: the line only shows that something else failed

    @property
    def hint(self) -> str:
        """One sentence: what to try."""
        return table().remedy(self.kind)

    @property
    def exception(self) -> str:
        """The class of the exception, as the line names it; "" where it names none."""
        name = self.line.partition(":")[0].partition("(")[0].strip()
        dotted = all(part.isidentifier() for part in name.split("."))
        return name if self.frame and name and dotted else ""

    @property
    def where(self) -> str:
        """The frame and what its file is, for people; "" without a frame."""
        if self.frame is None:
            return ""
        role = self.frame.role if self.frame.is_own else "an installed package"
        return f"{self.frame} ({role})" if role else str(self.frame)


def killed_from_outside(ending: Ending, cause: str, returncode: int | None) -> bool:
    """Whether a signal from outside autoresearch ended the trainer or its Runner. returncode: 128 + n for signal n."""
    if ending in _OURS:
        return False
    if ending is Ending.STOPPED:
        return cause in ("sigterm", "sigquit")
    return ending is Ending.LOST or (returncode or 0) - 128 in _FROM_OUTSIDE


def with_the_end(failure: Failure | None, ending: Ending, *, killed: bool, kills: str) -> Failure | None:
    """The failure to report, from the root cause found in the log and the way the run ended.

    failure: the root cause in the log. killed: see `killed_from_outside`. kills: the command or script line of the
    run that kills processes by name; "" for none. A certain cause in the log wins. Otherwise, if the run was killed
    from outside and it has such a command, that command is blamed. A run that was ended as stalled, with no cause in
    its log, is a STALL. Of a run whose Runner died, what only shows that something else failed is a consequence: an
    engine goes with its Runner.
    """
    if failure is not None and failure.line.startswith("KeyboardInterrupt") and (killed or ending is Ending.STOPPED):
        failure = None  # what an interrupted trainer prints, not a cause
    if failure is not None and ending is Ending.LOST and not failure.certain:
        failure = None
    if failure is not None and failure.kind in table().certain_kinds:
        return failure
    if killed and kills:
        return Failure(FailureKind.KILLED_BY_AUTOKILL, kills)
    if failure is None and ending is Ending.STALLED:
        return Failure(FailureKind.STALL, "")
    return failure
