"""The external parts that the lab uses, passed to it by the one module that wires them."""

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
    """Starts Runners in local sessions."""

    def preflight(self) -> list[Finding]:
        """Problems that would keep `start` from working here."""

    def start(self, session: str, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> SessionInfo:
        """Start argv in a new session of that name; raises ConflictError if it exists."""

    def alive(self, sessions: Sequence[SessionInfo]) -> dict[str, bool | None]:
        """Whether each session lives; None if unknown now."""

    def exists(self, info: SessionInfo) -> bool:
        """Whether a session can be viewed."""

    def list_ours(self) -> list[SessionInfo]:
        """Every `ajet_*` session, running or over."""

    def list_ended(self) -> list[SessionInfo]:
        """Those of them in which nothing runs any more."""

    def close(self, info: SessionInfo) -> bool:
        """Close a session; False if it is gone already."""

    def attach_argv(self, info: SessionInfo, environ: Mapping[str, str]) -> list[str]:
        """The argv to exec for viewing a session."""


def _nowhere(target: Target, environ: Mapping[str, str]) -> JobLauncher:
    raise EnvironmentUnusable(f"no launcher is wired for {target.name}")


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that `commands.wiring` creates once per command."""

    environ: Mapping[str, str]
    index: Index
    launcher: Callable[[str], Launcher]  # by tmux socket setting
    clock: Callable[[], float] = time.time
    launcher_for: Callable[[Target, Mapping[str, str]], JobLauncher] = (
        _nowhere  # the launcher of a target that is not local
    )
