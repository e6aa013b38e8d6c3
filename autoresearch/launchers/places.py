"""Which launcher a place has, and which options it understands."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from autoresearch.core.far import JobLauncher
from autoresearch.core.places import Kind, Place
from autoresearch.errors import UsageError

COMMON = {
    "python": "the interpreter of the Runner there; default: the trainer's",
    "gpus_per_run": "GPUs that each run gets",
    "pending_limit": "how long a run may wait in a queue; default 24h",
}


def options_of(kind: Kind) -> Mapping[str, str]:
    """Option -> what it is for."""
    if kind is Kind.SLURM:
        from autoresearch.launchers.slurm import OPTIONS

        return {**COMMON, **OPTIONS}
    if kind is Kind.SSH:
        from autoresearch.launchers.ssh import OPTIONS as SSH_OPTIONS

        return {**COMMON, **SSH_OPTIONS}
    return COMMON


def check(place: Place) -> None:
    """UsageError for an option that its launcher does not know."""
    known = options_of(place.kind)
    for name in place.options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
            raise UsageError(f"launchers.{place.name}: {place.kind} has no option {name!r}", hint=hint)


def launcher_of(place: Place, environ: Mapping[str, str]) -> JobLauncher:
    """The launcher of a place that is not local. UsageError for options that make no sense."""
    check(place)
    if place.kind is Kind.SLURM:
        from autoresearch.launchers.slurm import SlurmLauncher

        return SlurmLauncher(place, environ)
    if place.kind is Kind.SSH:
        from autoresearch.launchers.ssh import SshLauncher

        return SshLauncher(place, environ)
    raise UsageError(f"{place.kind} cannot be asked yet")
