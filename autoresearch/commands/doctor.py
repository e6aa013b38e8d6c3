"""`autoresearch doctor`: is this machine fit, and if not, what is the remedy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.core.finding import Severity
from autoresearch.errors import EnvironmentUnusable


def doctor(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Of the project to run in.")] = ".",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Check tmux, git, disk, GPUs and sandboxes on this machine. Exits 6 where a run could not start."""
    from autoresearch.lab import settings as project
    from autoresearch.launchers import sandbox, surroundings
    from autoresearch.launchers.tmux import TmuxLauncher
    from autoresearch.records.index import state_home
    from autoresearch.repository import checkout as repository

    here = Path(directory).absolute()
    settings = project.load(here, environ=os.environ)
    repo = repository.find(here)
    around = surroundings.look([here, state_home()], git_directory=repo.git_dir if repo else None)
    found = surroundings.findings(around, TmuxLauncher(settings.text("tmux_socket")))
    errors = [f for f in found if f.severity is Severity.ERROR]
    gpus = ", ".join(f"{g.index}: {g.name} {g.uuid}" for g in around.gpus) or "none"
    rows = [
        ["system", around.system],
        ["python", f"{around.python} ({around.interpreter})"],
        ["tmux", around.tmux or "missing"],
        ["git", around.git or "missing"],
        ["repository", str(repo.root) if repo else repository.why_not(here)],
        ["GPUs", gpus],
        ["driven by", sandbox.driven_by(os.environ) or "a person"],
        *(["disk", f"{d.free_bytes / 1e9:.1f} GB free for {d.directory}"] for d in around.disks),
        *([f.severity.value, str(f)] for f in found),
        ["verdict", "a run could not start here" if errors else "fit"],
    ]
    if as_json:
        payload = {
            "fit": not errors,
            "system": around.system,
            "python": around.python,
            "tmux": around.tmux,
            "git": around.git,
            "repository": str(repo.root) if repo else None,
            "gpus": [{"index": g.index, "uuid": g.uuid, "name": g.name} for g in around.gpus],
            "findings": [
                {"severity": f.severity.value, "code": f.code, "message": f.message, "hint": f.hint} for f in found
            ],
            "next": ["autoresearch run BLUEPRINT"] if not errors else [],
        }
        output.emit("doctor", payload, as_json=True)
    else:
        output.table(rows)
    return EnvironmentUnusable.exit_code if errors else 0
