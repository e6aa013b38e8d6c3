"""`autoresearch close RUN`: a pane stays readable after the end until this."""

from __future__ import annotations

from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.spec import RunState
from autoresearch.errors import ConflictError


def close(
    run: Annotated[str, typer.Argument(metavar="RUN")] = "last",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Close the tmux session of a run that is over, or is elsewhere; its records stay."""
    from autoresearch.lab.runs import sessions
    from autoresearch.lab.runs.adopt import adopt

    parts = real_parts()
    rundir = sessions.find(run, parts)
    spec = sessions.spec_of(rundir)
    state, _ = adopt(rundir, parts)
    if state is not RunState.ENDED and not rundir.order.exists():  # elsewhere it only shows the log
        raise ConflictError(
            f"{spec.run} is {state.value}; closing its session would end it",
            fix=f"autoresearch stop {spec.run}",
        )
    closed = sessions.close_session(rundir, parts)
    said = f"closed {spec.session}" if closed else f"{spec.session} was closed already"
    payload = {"run": spec.run, "run_dir": str(rundir.path), "closed": closed, "next": []}
    output.emit("close", payload, as_json=as_json, lines=[f"{said}: {spec.run} in {rundir.path}"])
    return 0
