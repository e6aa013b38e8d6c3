"""Digest: what a log shows of a run's end, for somebody who judges the cause: an agent, or a person."""

from __future__ import annotations

from collections.abc import Sequence

from autoresearch.core.diagnosis.failure import Failure

MOST_LINES = 60
_MOST_PROCESSES = 20
_MOST_NOTICES = 8
_WIDTH = 240


def digest(firsts: Sequence[Failure], notices: Sequence[Failure], last_step: str, steps: int) -> tuple[str, ...]:
    """At most MOST_LINES lines: the last step, what kernel and scheduler said, each process's first exception.

    firsts: the first exception of each process. Processes with the same exception share a line.
    """
    lines = [f"last step of {steps}: {last_step}" if last_step else "no training step was seen"]
    lines += [f"kernel, scheduler or shell: {_cited(notice)}" for notice in notices[:_MOST_NOTICES]]
    same: dict[tuple[str, str], list[Failure]] = {}
    for first in firsts:
        same.setdefault((first.line, first.where), []).append(first)
    for group in list(same.values())[:_MOST_PROCESSES]:
        first, more = group[0], f", and {len(group) - 1} more" if len(group) > 1 else ""
        lines.append(f"first exception of {first.process or 'the program'}{more}: {_cited(first)}")
        lines += [f"    at {first.where}"] if first.where else []
    lines += [f"and {len(same) - _MOST_PROCESSES} other exceptions"] if len(same) > _MOST_PROCESSES else []
    if not firsts:
        lines.append("no process printed an exception")
    return tuple(line[:_WIDTH] for line in lines[:MOST_LINES])


def _cited(failure: Failure) -> str:
    number = f"line {failure.position.number}: " if failure.position.number else ""
    return f"{number}{failure.line}"
