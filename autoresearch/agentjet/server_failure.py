"""Why a swarm engine or server died: the root cause in the server's log, and the lines that show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autoresearch.core.diagnosis.evidence import classify
from autoresearch.core.diagnosis.tracebacks import traceback

SHOWN = 25


def root_cause(lines: Sequence[str]) -> str:
    """The line that explains most; "" without any."""
    failure = classify(lines)
    return failure.line if failure else ""


def evidence(lines: Sequence[str], whose: str) -> Iterator[str]:
    """The last traceback of a log, else its last lines, for the run's log, which `explain` reads."""
    shown = traceback(lines).splitlines() or list(lines[-SHOWN:])
    if shown:
        yield f"[swarm] {whose} ends with:"
        yield from shown[-2 * SHOWN :]
