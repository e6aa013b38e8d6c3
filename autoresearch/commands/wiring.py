"""The composition root: the one place that hands real parts to the lab."""

from __future__ import annotations

import os

from autoresearch.lab.parts import Launcher, Parts
from autoresearch.records.index import Index


def parts() -> Parts:
    """The real environment, index, tmux and clock."""
    return Parts(environ=os.environ, index=Index(), launcher=_tmux)


def _tmux(socket: str) -> Launcher:
    from autoresearch.launchers.tmux import TmuxLauncher

    return TmuxLauncher(socket)
