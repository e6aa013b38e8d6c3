"""The composition root: the one module that hands real parts to the lab."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.lab.parts import Parts
from autoresearch.records.index import Index

if TYPE_CHECKING:
    from autoresearch.core.run.hooks import HostServices
    from autoresearch.core.run.job_launcher import JobLauncher
    from autoresearch.core.run.targets import Target
    from autoresearch.launchers.tmux import TmuxLauncher


def parts() -> Parts:
    """The real environment, index, tmux and clock."""
    return Parts(environ=os.environ, index=Index(), launcher=_tmux, launcher_for=job_launcher)


def host_services() -> HostServices:
    """What the programs of a trainer's server get of this machine."""
    from autoresearch.core.run.hooks import HostServices

    return HostServices(os.environ, str(Index().directory), _start_session, _tree_of)


def _start_session(
    socket: str, session: str, argv: Sequence[str], cwd: str, environment: Mapping[str, str]
) -> Mapping[str, object]:
    return asdict(_tmux(socket).start(session, argv, cwd=Path(cwd), environment=environment))


def _tree_of(cwd: str, commit: str) -> str:
    from autoresearch.git_repo import checkout
    from autoresearch.git_repo.git import GitFailed

    here = checkout.find(Path(cwd))
    try:
        return here.git.line("rev-parse", f"{commit}^{{tree}}") if here else commit
    except GitFailed:
        return commit


def _tmux(socket: str) -> TmuxLauncher:
    from autoresearch.launchers import tmux

    return tmux.TmuxLauncher(socket)


def job_launcher(target: Target, environ: Mapping[str, str]) -> JobLauncher:
    """The launcher of a target that is not this machine's tmux."""
    from autoresearch.launchers.registry import launcher_of

    return launcher_of(target, environ)
