"""The programs of a swarm run by name, `autoresearch swarm up|serve|client|down RUN_DIR`; its Runners start them.

`down` comes after the client: a `cleanup` step of the run, after any ending and after a failed preparation. It is safe
to repeat, and is also called when a run whose Runner was killed is recorded. By then the client has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from autoresearch.agentjet import client, serve, server_session, swarm_run, up
from autoresearch.agentjet.child import pass_on
from autoresearch.agentjet.engine_status import OFFLINE
from autoresearch.agentjet.engine_watch import TAG
from autoresearch.agentjet.fault import EXIT, SwarmFault
from autoresearch.agentjet.swarm_run import SwarmRun, listening, port_of
from autoresearch.core.run.server import EndProcesses, HostServices, Say
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.errors import ConflictError, UsageError

PROGRAMS = ("up", "serve", "client")
STOP_S = 40.0
PORT_S = 10.0


def run(program: str, run_dir: str, services: HostServices, say: Say) -> int:
    """Run one of them to its end; returns the exit code, 3 for a run that cannot go on (its lines say why)."""
    if program not in PROGRAMS:
        raise UsageError(f"{program!r} is no program of a swarm run", hint=", ".join(PROGRAMS))
    given = swarm_run.read(run_dir)
    try:
        if program == "serve":
            return pass_on(serve.serve(given, say))
        if program == "client":
            return client.client(given, say)
        up.up(given, services, say)
    except SwarmFault as fault:
        for line in fault.lines():
            say(line)
        return EXIT
    return 0


def stop(run_dir: str, end_processes: EndProcesses, say: Say) -> bool:
    """Stop the engine, end the server with its process tree, free its port; whether nothing of them is left."""
    given = swarm_run.read(run_dir)
    url = given.url()
    if url and given.owns_engine():
        _stop_engine(given, say)
    if not given.swarm.starts_session or not given.server_dir.path.is_dir():
        return True
    server_session.end(given, stop_s=STOP_S)
    if given.server_dir.state() is not RunState.ENDED:
        count = end_processes(given.server_run, given.spec.limits.grace_s)
        say(f"{TAG}the server's Runner was dead; {count} processes of the server were ended")
    serve.end_container(given)
    if url and not _free(port_of(url)):
        say(f"{TAG}port {port_of(url)} is still taken")
        return False
    say(f"{TAG}the server is down" + (f" and port {port_of(url)} is free" if url else ""))
    return True


def check_port(spec: RunSpec) -> None:
    """Raise ConflictError if the port of this run's server is in use."""
    port = spec.swarm.port if spec.swarm and spec.swarm.server else None
    if port is not None and listening(port):
        raise ConflictError(
            f"port {port} of this run's swarm server is taken by somebody else",
            hint="end that server, or write --swarm-port=$AJET_SWARM_PORT, which takes any free one",
            code="port_taken",
        )


def _stop_engine(swarm_run: SwarmRun, say: Say) -> None:
    if swarm_run.swarm.starts_session and not server_session.alive(swarm_run):
        return
    poll = swarm_run.server().poll()
    if poll.status in ("", OFFLINE):
        return
    trouble = swarm_run.server().stop()
    say(f"{TAG}the engine was {poll.status}: " + (f"it cannot be stopped: {trouble}" if trouble else "stopped"))


def _free(port: int, *, clock: Callable[[], float] = time.monotonic) -> bool:
    until = clock() + PORT_S
    while listening(port):
        if clock() >= until:
            return False
        time.sleep(0.1)
    return True
