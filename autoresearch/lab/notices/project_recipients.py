"""Who gets the notices of a project, as its settings are when there is something to say.

A lone run is recorded by whoever comes first: its collector, a `wait` in another terminal, a follower. So the variables
that `notify:` refers to are kept from the launch until then, readable by this account alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from autoresearch.errors import AutoresearchError
from autoresearch.lab import settings as project
from autoresearch.notifiers.recipients import VARIABLE, Recipients, parse_recipients
from autoresearch.records.index import state_home
from autoresearch.records.rundir import read_json, write_atomically


def recipients_in(settings: project.Settings, environ: Mapping[str, str]) -> Recipients:
    """The recipients that the settings name."""
    return parse_recipients(settings.notify, settings.notify_source, environ)


def project_recipients(directory: Path, environ: Mapping[str, str]) -> Recipients:
    """The recipients of the project in a directory; settings that cannot be read are a problem, no error."""
    if not environ.get(VARIABLE) and project.find_file(directory.absolute()) is None:
        return Recipients()
    try:
        return recipients_in(project.load(directory, environ=environ), environ)
    except AutoresearchError as error:
        return Recipients(problems=(error.message,))


def keep_variables(run: str, settings: project.Settings, environ: Mapping[str, str]) -> None:
    """Keep the variables that `notify:` refers to until the run is recorded. Raises OSError."""
    names = {VARIABLE, *recipients_in(settings, environ).variables}
    if values := {name: environ[name] for name in sorted(names) if environ.get(name)}:
        path = _variables_of(run)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, json.dumps(values).encode(), mode=0o600, durable=False)


def kept_variables(run: str) -> dict[str, str]:
    """The variables that were kept for a run."""
    return {name: str(value) for name, value in (read_json(_variables_of(run)) or {}).items()}


def forget_variables(run: str) -> None:
    """Delete what was kept for a run."""
    _variables_of(run).unlink(missing_ok=True)


def _variables_of(run: str) -> Path:
    return state_home() / "notify" / f"{run}.json"
