"""Before the client starts: a server that answers, an engine that is off, and one episode that works.

A `prepare` step of the run: its output goes to the run's log, and any failure ends the launch.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from autoresearch.lab.agentjet import gate, server_session
from autoresearch.lab.agentjet.engine_status import OFFLINE
from autoresearch.lab.agentjet.engine_watch import TAG
from autoresearch.lab.agentjet.fault import SwarmFault
from autoresearch.lab.agentjet.server_failure import evidence, root_cause
from autoresearch.lab.agentjet.swarm_dir import SwarmDir, listening, port_of, settle_url
from autoresearch.lab.parts import Parts

Say = Callable[[str], None]

LOOK_S = 1.0
FIRST_LOOKS_S = 0.1  # a server is up within seconds; the first check is early


def up(place: SwarmDir, parts: Parts, say: Say) -> None:
    """Raises SwarmFault if the client must not be started."""
    url = settle_url(place.swarm, parts.environ)
    if place.swarm.ours and listening(port_of(url)):
        raise SwarmFault("port_taken", taken(port_of(url)))
    place.note(url=url)
    if place.swarm.ours:
        what = "forward" if place.swarm.ssh else "server"
        say(f"{TAG}{what} starts in session {place.session}")
        server_session.start(place, parts)
    took = await_health(place)
    say(f"{TAG}server healthy at {url} after {took:.1f} s")
    guarantee_offline(place, say)
    place.note(owned=True)
    if place.swarm.debug:
        gate.check(place, parts, say)
        stop_own_engine(place, say)


def taken(port: int) -> str:
    """The message for a port that is in use."""
    return f"port {port} is taken by somebody else; end that server, or give this one another port"


def await_health(place: SwarmDir, *, clock: Callable[[], float] = time.monotonic) -> float:
    """Seconds until GET /health was ok. SwarmFault if the server ends first, or takes too long."""
    began, pause = clock(), FIRST_LOOKS_S
    server = place.server()
    while trouble := server.healthy():
        if place.swarm.ours and (ended := server_session.how_it_ended(place)):
            raise server_died(place, f"ended before it was healthy: {ended}")
        if clock() - began >= place.swarm.health_s:
            raise _unhealthy(place, trouble)
        time.sleep(pause)
        pause = min(2 * pause, LOOK_S)
    return clock() - began


def server_died(place: SwarmDir, how: str) -> SwarmFault:
    """The fault of a server that ended, with the cause from its log."""
    lines = server_session.log_lines(place.server_dir.log)
    what = "forward" if place.swarm.ssh else "server"
    cause = root_cause(lines)
    text = f"the {what} {how}" + (f": {cause}" if cause else "")
    return SwarmFault("server_died", text, tuple(evidence(lines, f"the {what}'s log")))


def _unhealthy(place: SwarmDir, trouble: str) -> SwarmFault:
    text = f"no healthy server at {place.url()} within {place.swarm.health_s:.0f} s: {trouble}"
    if not place.swarm.ours:
        text += "; `- swarm_server: ajet-swarm start --swarm-port=10086` in the notes starts one"
        return SwarmFault("server_unhealthy", text)
    return SwarmFault(
        "server_unhealthy", text, tuple(evidence(server_session.log_lines(place.server_dir.log), "its log"))
    )


def guarantee_offline(place: SwarmDir, say: Say) -> None:
    """An engine that is not off trains another run: refuse or stop it, never use it."""
    look = place.server().look()
    if look.status == OFFLINE:
        return
    if not look.status:
        raise SwarmFault("server_unhealthy", f"the engine's status cannot be read: {look.trouble}")
    found = f"the engine is {look.status}" + (f" at global_step {look.step}" if look.step is not None else "")
    if place.swarm.on_busy != "stop":
        hint = "`- swarm_on_busy: stop` stops it first"
        raise SwarmFault("engine_busy", f"{found}: another run has it; {hint}")
    say(f"{TAG}{found}: it is stopped")
    _stop(place)


def stop_own_engine(place: SwarmDir, say: Say) -> None:
    """Stop the engine that the check has booted: the run trains with a fresh one."""
    if place.server().look().status != OFFLINE:
        say(f"{TAG}the engine that the check has booted is stopped")
        _stop(place)


def _stop(place: SwarmDir) -> None:
    if trouble := place.server().stop():
        raise SwarmFault("engine_stuck", f"the engine cannot be stopped: {trouble}")
