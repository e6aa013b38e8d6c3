"""Findings of checks: errors and warnings, with their location and a hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autoresearch.errors import AutoresearchError, BlueprintError


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

    @property
    def location(self) -> str:
        """`file:line: ` in front of a message; without the line, or empty, where they are not known."""
        return f"{self.where}:{self.line}: " if self.line else f"{self.where}: " if self.where else ""

    def __str__(self) -> str:
        return f"{self.location}{self.severity}: {self.message}" + (f" ({self.hint})" if self.hint else "")


def errors(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that stop a run."""
    return [f for f in findings if f.severity is Severity.ERROR]


def raise_on(findings: Sequence[Finding], raised: type[AutoresearchError] = BlueprintError, start: str = "") -> None:
    """Raise the first error of them, with its hint; `start`: in front of its message."""
    for bad in errors(findings)[:1]:
        raise raised(start + bad.message, hint=bad.hint, code=bad.code)


def one_of_a_kind(findings: Iterable[Finding]) -> list[str]:
    """The findings in words: each error; of all warnings of a kind the first, and how many are like it."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for one in findings:
        own = one.message if one.severity is Severity.ERROR else ""
        kinds.setdefault((one.severity, one.code, one.where, own), []).append(str(one))
    return [f"{first}; {len(others)} more like it" if others else first for first, *others in kinds.values()]


def error(line: int, code: str, message: str, hint: str = "", where: str = "") -> Finding:
    """An error in this line of a file; the parser of blueprints adds the file's name to all its findings at the end."""
    return Finding(Severity.ERROR, code, message, hint, where, line)


def warning(line: int, code: str, message: str, hint: str = "", where: str = "") -> Finding:
    """A warning about this line of a file, whose name may come later, as in `error`."""
    return Finding(Severity.WARNING, code, message, hint, where, line)
