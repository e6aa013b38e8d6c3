"""`autoresearch attach RUN`: put this terminal into the run's tmux session."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import NotFoundError


def attach(
    run: Annotated[str, typer.Argument(metavar="RUN")] = "last",
    server: Annotated[bool, typer.Option("--server", help="The swarm server's session instead.")] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Attach this terminal to the tmux session of a run; without a terminal, print the line to type."""
    from autoresearch.lab.runs import sessions
    from autoresearch.records import order_file

    parts = real_parts()
    rundir = sessions.find(run, parts)
    spec = sessions.spec_of(rundir)
    info = sessions.server_session_info(rundir) if server else sessions.session_info(rundir)
    what, log = ("server's session", rundir.path / "server/run.log") if server else ("session", rundir.log)
    order = None if server else order_file.read(rundir)
    if order and rundir.state().lives and not (info and parts.launcher(info.socket).exists(info)):
        from autoresearch.lab.remote.order import show_log

        info = show_log(rundir, spec.session, parts, order.socket)
    if info is None or not parts.launcher(info.socket).exists(info):
        raise NotFoundError(f"{spec.run} has no {what} any more", hint=f"its log is {log}")
    if as_json or output.agent_or_pipe():
        payload = {"run": spec.run, "session": info.session, "attach": info.attach, "next": []}
        output.emit("attach", payload, as_json=as_json, lines=[info.attach])
        return 0
    words = parts.launcher(info.socket).attach_argv(info, os.environ)
    sys.stdout.flush()
    return os.execvp(words[0], words)
