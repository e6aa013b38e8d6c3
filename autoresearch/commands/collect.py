"""`autoresearch collect RUN_DIR`: the Runner's last act; also safe to type."""

from __future__ import annotations

from typing import Annotated

import typer

from autoresearch.commands.outcome import show_outcome
from autoresearch.commands.wiring import parts as real_parts


def collect(
    run: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Write the records of a run that is over; does nothing twice."""
    from autoresearch.lab.results.collect import collect as write_records
    from autoresearch.lab.runs import sessions

    parts = real_parts()
    rundir = sessions.find(run, parts)
    show_outcome("collect", write_records(rundir, parts.index), rundir, as_json=as_json)
    return 0
