"""The external parts that the lab uses, passed to it by the one module that wires them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoresearch.errors import EnvironmentUnusable
from autoresearch.records.index import Index

if TYPE_CHECKING:
    from autoresearch.core.run.job_launcher import JobLauncher
    from autoresearch.core.run.targets import Target
    from autoresearch.launchers.tmux import TmuxLauncher


def _nowhere(target: Target, environ: Mapping[str, str]) -> JobLauncher:
    raise EnvironmentUnusable(f"no launcher is wired for {target.name}")


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that `commands.wiring` creates once per command."""

    environ: Mapping[str, str]
    index: Index
    launcher: Callable[[str], TmuxLauncher]  # by tmux socket setting
    clock: Callable[[], float] = time.time
    launcher_for: Callable[[Target, Mapping[str, str]], JobLauncher] = (
        _nowhere  # the launcher of a target that is not local
    )
