"""`autoresearch collect RUN_DIR`: the Runner's last act; also safe to type."""

from __future__ import annotations

from typing import Annotated

import typer

from autoresearch.commands.outcome import show_outcome
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import AutoresearchError
from autoresearch.records.rundir import RunDir


def collect(
    run: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Write the records of a run that is over; does nothing twice."""
    from autoresearch.lab.results.collect import collect as write_records
    from autoresearch.lab.runs import sessions

    parts = real_parts()
    rundir = sessions.find(run, parts)
    try:
        outcome = write_records(rundir, parts.index)
    except (AutoresearchError, OSError) as error:
        _announce_full_disk(rundir, error)
        raise
    show_outcome("collect", outcome, rundir, as_json=as_json)
    return 0


def _announce_full_disk(rundir: RunDir, error: Exception) -> None:
    """The Runner calls this once, and nobody reads what it prints."""
    from autoresearch.lab.campaigns.trouble import is_full
    from autoresearch.lab.notices.run_notices import announce_full_disk
    from autoresearch.lab.runs.sessions import spec_of

    if is_full(error):
        announce_full_disk(spec_of(rundir), error)
