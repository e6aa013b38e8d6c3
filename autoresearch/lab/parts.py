"""The real things the lab touches, handed to it by the one place that wires them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from autoresearch.errors import EnvironmentUnusable
from autoresearch.records.index import Index

if TYPE_CHECKING:
    from autoresearch.core.blueprint.finding import Finding
    from autoresearch.core.run.job_launcher import JobLauncher
    from autoresearch.core.run.targets import Target
    from autoresearch.launchers.tmux_session import SessionInfo


class Launcher(Protocol):
    """A place where a Runner can be started."""

    def preflight(self) -> list[Finding]:
        """What would keep `start` from working here."""

    def start(self, session: str, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> SessionInfo:
        """Start argv in a new session of that name; an existing name is a ConflictError."""

    def alive(self, sessions: Sequence[SessionInfo]) -> dict[str, bool | None]:
        """Whether each session is there; None where that cannot be known now."""

    def exists(self, info: SessionInfo) -> bool:
        """Whether a session can be looked at."""

    def list_ours(self) -> list[SessionInfo]:
        """Every session of ours there, running or over."""

    def close(self, info: SessionInfo) -> bool:
        """Close a session; False where it is gone already."""

    def attach_argv(self, info: SessionInfo, environ: Mapping[str, str]) -> list[str]:
        """The program to become for looking at a session."""


def _nowhere(place: Target, environ: Mapping[str, str]) -> JobLauncher:
    raise EnvironmentUnusable(f"no launcher is wired for {place.name}")


@dataclass(frozen=True, slots=True)
class Parts:
    """What `commands.wiring` puts together once per command."""

    environ: Mapping[str, str]
    index: Index
    launcher: Callable[[str], Launcher]  # by tmux socket setting
    clock: Callable[[], float] = time.time
    place: Callable[[Target, Mapping[str, str]], JobLauncher] = _nowhere  # of a place that is not local
