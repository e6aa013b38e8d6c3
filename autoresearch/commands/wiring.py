"""The composition root: the one place that hands real parts to the lab."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from autoresearch.lab.parts import Launcher, Parts
from autoresearch.records.index import Index

if TYPE_CHECKING:
    from autoresearch.core.run.job_launcher import JobLauncher
    from autoresearch.core.run.targets import Target


def parts() -> Parts:
    """The real environment, index, tmux and clock."""
    return Parts(environ=os.environ, index=Index(), launcher=_tmux, place=job_launcher)


def _tmux(socket: str) -> Launcher:
    from autoresearch.launchers.tmux import TmuxLauncher

    return TmuxLauncher(socket)


def job_launcher(place: Target, environ: Mapping[str, str]) -> JobLauncher:
    """The launcher of a place that is not this machine's tmux."""
    from autoresearch.launchers.registry import launcher_of

    return launcher_of(place, environ, _manifest)


def _manifest(template: str, values: Mapping[str, object]) -> dict[str, Any]:
    from autoresearch.lab.manifests import manifest  # costs jinja2 and yaml, and is for Kubernetes alone

    return manifest(template, values)
