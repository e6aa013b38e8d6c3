"""Findings of checks: errors and warnings, with their location and a hint."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """An error stops a run before it starts; a warning is shown and recorded."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `where` is a file name, `line` counts from 1 (0: the file as a whole)."""

    severity: Severity
    code: str  # a stable identifier, e.g. "missing_command"
    message: str  # one sentence: what is wrong
    hint: str = ""  # one sentence: what to do
    where: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.where}:{self.line}: " if self.line else f"{self.where}: " if self.where else ""
        return f"{place}{self.severity}: {self.message}" + (f" ({self.hint})" if self.hint else "")


def errors(findings: tuple[Finding, ...] | list[Finding]) -> list[Finding]:
    """The findings that stop a run."""
    return [f for f in findings if f.severity is Severity.ERROR]
