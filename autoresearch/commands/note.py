"""`autoresearch note RUN TEXT`: an intervention, written down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import UsageError


def note(
    run: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Add a line to the experiment log of a run."""
    from autoresearch.lab.runs import sessions
    from autoresearch.records import events, journal

    if not text.strip():
        raise UsageError("the note is empty", fix=f"autoresearch note {run} 'what was done'")
    rundir = sessions.find(run, real_parts())
    spec = sessions.spec_of(rundir)
    journal.append(Path(spec.result_dir), f"note: {text}")
    events.append(rundir.events, "note", text=text[:1000])
    path = Path(spec.result_dir) / journal.NAME
    output.emit(
        "note",
        {"run": spec.run, "run_dir": str(rundir.path), "journal": str(path), "next": []},
        as_json=as_json,
        lines=[f"noted of {spec.run} in {rundir.path}: {path}"],
    )
    return 0
