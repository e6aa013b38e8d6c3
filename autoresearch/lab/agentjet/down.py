"""After the client: stop the engine, end the server with its process tree, free its port. Safe to repeat.

A `cleanup` step of the run, after any ending and after a failed preparation; also run when a run with a killed Runner
is recorded. By then the Runner has ended the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from autoresearch.core.run.spec import RunState
from autoresearch.lab.agentjet import server_session
from autoresearch.lab.agentjet.engine_status import OFFLINE
from autoresearch.lab.agentjet.engine_watch import TAG
from autoresearch.lab.agentjet.serve import end_container
from autoresearch.lab.agentjet.swarm_dir import SwarmDir, listening, port_of
from autoresearch.lab.runs.end_leftovers import SWEEP_S, sweep

Say = Callable[[str], None]

PATIENCE_S = 40.0
PORT_S = 10.0


def down(place: SwarmDir, say: Say) -> bool:
    """Whether nothing of the server's half is left; leftovers are reported."""
    url = place.url()
    if url and place.owns_engine():
        _stop_engine(place, say)
    if not place.swarm.ours or not place.server_dir.path.is_dir():
        return True
    server_session.end(place, patience_s=PATIENCE_S)
    if place.server_dir.state() is not RunState.ENDED:
        count = sweep(place.server_run, grace_s=min(place.spec.limits.grace_s, SWEEP_S))
        say(f"{TAG}the server's Runner was dead; {count} processes of the server were ended")
    end_container(place)
    if url and not _free(port_of(url)):
        say(f"{TAG}port {port_of(url)} is still taken")
        return False
    say(f"{TAG}the server is down" + (f" and port {port_of(url)} is free" if url else ""))
    return True


def _stop_engine(place: SwarmDir, say: Say) -> None:
    if place.swarm.ours and not server_session.alive(place):
        return
    look = place.server().look()
    if look.status in ("", OFFLINE):
        return
    trouble = place.server().stop()
    say(f"{TAG}the engine was {look.status}: " + (f"it cannot be stopped: {trouble}" if trouble else "stopped"))


def _free(port: int, *, clock: Callable[[], float] = time.monotonic) -> bool:
    until = clock() + PORT_S
    while listening(port):
        if clock() >= until:
            return False
        time.sleep(0.1)
    return True
