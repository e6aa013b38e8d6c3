"""spec.json as the Runner reads it: the run's spec, and keys that only the Runner needs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from autoresearch.lab.resolve.resolved_run import ResolvedRun
from autoresearch.launchers import gpus
from autoresearch.records import journal, spec_file
from autoresearch.trainers import ask

RUNNER = Path(__file__).parents[2] / "runner"  # a directory with a __main__.py is a program


def write_spec(resolved_run: ResolvedRun, *, ahead: bool) -> None:
    """Write spec.json of a run that is being prepared. `ahead`: before it is known whether it will be started."""
    spec_file.write(resolved_run.directory, resolved_run.spec, keys_of_runner(resolved_run, ahead=ahead))


def keys_of_runner(resolved_run: ResolvedRun, *, ahead: bool) -> dict[str, object]:
    """The keys of spec.json that only the Runner reads."""
    spec = resolved_run.spec
    return {
        "journal": str(Path(spec.result_dir) / journal.NAME),
        "collector": [sys.executable, "-P", "-m", "autoresearch", "collect", spec.run_dir],
        "leases": [str(p) for p in gpus.make_leases(spec.gpus, resolved_run.options.environment)],
        "await_launch": "ahead" if ahead else "now",
        "first_step": resolved_run.resolved.blueprint.notes.first_step,
        "output": resolved_run.trainer_settings.output,
        "start": ask.server(resolved_run.trainer_settings.trainer).start_command(spec),
    }


def environment_bytes(environment: Mapping[str, str]) -> bytes:
    """An environment as the Runner takes it: NAME=value, ended by NUL."""
    return b"\0".join(f"{k}={v}".encode("utf-8", "surrogateescape") for k, v in environment.items())
