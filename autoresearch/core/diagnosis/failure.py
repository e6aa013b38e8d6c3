"""Failure: why a run ended badly, as far as its own output shows."""

from __future__ import annotations

from dataclasses import dataclass

from autoresearch.core.diagnosis.failure_kinds import FailureKind, table
from autoresearch.core.diagnosis.tracebacks import TracebackFrame

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
