"""After the client: stop the engine, end the server with its process tree, free its port. Safe to repeat.

A `cleanup` step of the run, after any ending and after a failed preparation; also called when a run whose Runner was
killed is recorded. By then the Runner has ended the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from autoresearch.agentjet import server_session
from autoresearch.agentjet.engine_status import OFFLINE
from autoresearch.agentjet.engine_watch import TAG
from autoresearch.agentjet.serve import end_container
from autoresearch.agentjet.swarm_run import SwarmRun, listening, port_of
from autoresearch.core.run.server import EndProcesses, Say
from autoresearch.core.run.spec import RunState

STOP_S = 40.0
PORT_S = 10.0


def down(swarm_run: SwarmRun, end_processes: EndProcesses, say: Say) -> bool:
    """Whether nothing of the server's half is left; leftovers are reported."""
    url = swarm_run.url()
    if url and swarm_run.owns_engine():
        _stop_engine(swarm_run, say)
    if not swarm_run.swarm.starts_session or not swarm_run.server_dir.path.is_dir():
        return True
    server_session.end(swarm_run, stop_s=STOP_S)
    if swarm_run.server_dir.state() is not RunState.ENDED:
        count = end_processes(swarm_run.server_run, swarm_run.spec.limits.grace_s)
        say(f"{TAG}the server's Runner was dead; {count} processes of the server were ended")
    end_container(swarm_run)
    if url and not _free(port_of(url)):
        say(f"{TAG}port {port_of(url)} is still taken")
        return False
    say(f"{TAG}the server is down" + (f" and port {port_of(url)} is free" if url else ""))
    return True


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
