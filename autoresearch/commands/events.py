"""`autoresearch events RUN`: the events of a run, to be polled by sequence number."""

from __future__ import annotations

from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts


def events(
    run: Annotated[str, typer.Argument(metavar="RUN")] = "last",
    since: Annotated[int, typer.Option(help="Only events after this number.")] = 0,
    last: Annotated[int, typer.Option(help="At most so many, the newest.")] = output.MAX_LINES,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """The events of a run, from a sequence number on."""
    from autoresearch.commands.live import event_line
    from autoresearch.lab.runs import sessions
    from autoresearch.records.events import read as read_events

    rundir = sessions.find(run, real_parts())
    spec = sessions.spec_of(rundir)
    found, upto = read_events(rundir.events, since)
    shown = found[-last:] if last > 0 else found
    payload = {
        "run": spec.run,
        "events": [{"seq": e.seq, "t": e.t, "s": e.s, "event": e.event, **e.fields} for e in shown],
        "left_off": len(found) - len(shown),
        "seq": upto,
        "events_path": str(rundir.events),
        "next": [f"autoresearch events {spec.run} --since {upto}"],
    }
    output.emit("events", payload, as_json=as_json, lines=[f"{e.seq:>5} {event_line(e)}" for e in shown])
    return 0
