"""`autoresearch swarm up|serve|client|down RUN_DIR`: what the Runners of a swarm run start; `down` is safe to type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import ConflictError, NotFoundError, UsageError

if TYPE_CHECKING:
    from autoresearch.lab.agentjet.swarm_dir import SwarmDir

RunArgument = Annotated[str, typer.Argument(metavar="RUN", show_default=False)]


def up(run: RunArgument) -> int:
    """Start the server, see the engine off and one episode work: a `prepare` step."""
    from autoresearch.lab.agentjet.up import up as bring_up

    return _telling(lambda: bring_up(_place(run), real_parts(), output.say))


def serve(run: RunArgument) -> int:
    """Be the server's session."""
    from autoresearch.lab.agentjet.child import pass_on
    from autoresearch.lab.agentjet.serve import serve as be_server

    return pass_on(be_server(_place(run), output.say))


def client(run: RunArgument) -> int:
    """Be the client's session: the launch command, watched."""
    from autoresearch.lab.agentjet.client import client as be_client

    codes: list[int] = []
    return _telling(lambda: codes.append(be_client(_place(run), output.say))) or codes[0]


def down(run: RunArgument, as_json: Annotated[bool, typer.Option("--json")] = False) -> int:
    """Stop the engine, end the server, see its port free: a `cleanup` step, harmless to repeat."""
    from autoresearch.core.run.spec import RunState
    from autoresearch.lab.agentjet.down import down as take_down

    place = _place(run)
    said: list[str] = []
    if place.rundir.state() in (RunState.RUNNING, RunState.EVALUATING) and not _inside(place):
        raise ConflictError(f"{place.spec.run} still runs", fix=f"autoresearch stop {place.spec.run}")
    if not as_json:
        output.say(f"{place.spec.run} in {place.rundir.path}:")
    free = take_down(place, said.append if as_json else output.say)
    if as_json:
        payload = {"run": place.spec.run, "run_dir": str(place.rundir.path), "down": free, "said": said, "next": []}
        output.emit("swarm down", payload, as_json=True)
    return 0 if free else ConflictError.exit_code


def _inside(place: SwarmDir) -> bool:
    """Whether we are a step of this very run."""
    import os

    return os.environ.get("AUTORESEARCH_RUN_ID") == place.spec.run


def _place(run: str) -> SwarmDir:
    from autoresearch.lab.agentjet.swarm_dir import place_of
    from autoresearch.lab.runs import sessions
    from autoresearch.records.rundir import RunDir

    here = RunDir(Path(run))
    rundir = here if here.path.is_absolute() and here.spec.is_file() else sessions.find(run, real_parts())
    try:
        place = place_of(rundir)
    except OSError as error:
        raise NotFoundError(f"{rundir.path}: the run directory is gone ({error.strerror})") from error
    if place is None:
        raise UsageError(f"{rundir.path.name} is no run of swarm mode", hint="its blueprint has no `swarm_` notes")
    return place


def _telling(act: Callable[[], None]) -> int:
    from autoresearch.lab.agentjet.fault import EXIT, SwarmFault

    try:
        act()
    except SwarmFault as fault:
        for line in fault.lines():
            output.say(line)
        return EXIT
    return 0
