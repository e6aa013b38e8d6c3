"""What a controller observes outside of the campaign's records, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoresearch.core.controller.actions import ControllerAction
from autoresearch.core.controller.agent_schedule import NO_AGENT, AgentStatus
from autoresearch.core.controller.scheduler import RunRequest


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """A run that is prepared, but not started yet."""

    run: str
    request: RunRequest


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine at one moment: the runs, the worktrees, the requests, the proposers and the coding agent."""

    now: float  # wall clock, seconds since the epoch
    live: tuple[str, ...] = ()  # started runs that are watched
    over: tuple[str, ...] = ()  # of these, the ones that ended, in the order of their ends
    recorded: tuple[str, ...] = ()  # runs that have their row, but were not reported yet
    requests: tuple[Mapping[str, Any], ...] = ()  # made by users, and not carried out yet
    ready: ReadyRun | None = None  # prepared, but not started yet
    spare_worktree: bool = True
    conflicting: frozenset[str] = frozenset()  # live runs, one of which writes a file that the next run writes as well
    dry: bool = False  # the proposers had no idea when they were last asked
    agent: AgentStatus = NO_AGENT
    # What was tried since something last happened, and came to nothing: it is not tried again now.
    tried: frozenset[ControllerAction] = frozenset()
