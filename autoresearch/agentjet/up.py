"""Before the client starts: a server that answers, an engine that is off, and one episode that works.

A `prepare` step of the run: its output goes to the run's log, and any failure ends the launch.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from autoresearch.agentjet import gate, server_session
from autoresearch.agentjet.engine_status import OFFLINE
from autoresearch.agentjet.engine_watch import TAG
from autoresearch.agentjet.fault import SwarmFault
from autoresearch.agentjet.server_failure import evidence, root_cause
from autoresearch.agentjet.swarm_run import SwarmRun, choose_url, listening, port_of
from autoresearch.core.run.server import HostServices, Say

LOOK_S = 1.0
FIRST_LOOKS_S = 0.1  # a server is up within seconds; the first check is early


def up(swarm_run: SwarmRun, services: HostServices, say: Say) -> None:
    """Raises SwarmFault if the client must not be started."""
    url = choose_url(swarm_run.swarm, services.environ)
    if swarm_run.swarm.starts_session and listening(port_of(url)):
        raise SwarmFault("port_taken", taken(port_of(url)))
    swarm_run.record(url=url)
    if swarm_run.swarm.starts_session:
        what = "forward" if swarm_run.swarm.ssh else "server"
        say(f"{TAG}{what} starts in session {swarm_run.session}")
        server_session.start(swarm_run, services)
    took = await_health(swarm_run)
    say(f"{TAG}server healthy at {url} after {took:.1f} s")
    require_offline(swarm_run, say)
    swarm_run.record(owned=True)
    if swarm_run.swarm.debug:
        gate.check(swarm_run, services, say)
        stop_own_engine(swarm_run, say)


def taken(port: int) -> str:
    """The message for a port that is in use."""
    return f"port {port} is taken by somebody else; end that server, or give this one another port"


def await_health(swarm_run: SwarmRun, *, clock: Callable[[], float] = time.monotonic) -> float:
    """Seconds until GET /health was ok. SwarmFault if the server ends first, or takes too long."""
    began, pause = clock(), FIRST_LOOKS_S
    server = swarm_run.server()
    while trouble := server.healthy():
        if swarm_run.swarm.starts_session and (ended := server_session.how_it_ended(swarm_run)):
            raise server_died(swarm_run, f"ended before it was healthy: {ended}")
        if clock() - began >= swarm_run.swarm.health_s:
            raise _unhealthy(swarm_run, trouble)
        time.sleep(pause)
        pause = min(2 * pause, LOOK_S)
    return clock() - began


def server_died(swarm_run: SwarmRun, how: str) -> SwarmFault:
    """The fault of a server that ended, with the cause from its log."""
    lines = server_session.log_lines(swarm_run.server_dir.log)
    what = "forward" if swarm_run.swarm.ssh else "server"
    cause = root_cause(lines)
    text = f"the {what} {how}" + (f": {cause}" if cause else "")
    return SwarmFault("server_died", text, tuple(evidence(lines, f"the {what}'s log")))


def _unhealthy(swarm_run: SwarmRun, trouble: str) -> SwarmFault:
    text = f"no healthy server at {swarm_run.url()} within {swarm_run.swarm.health_s:.0f} s: {trouble}"
    if not swarm_run.swarm.starts_session:
        text += "; `- swarm_server: ajet-swarm start --swarm-port=10086` in the notes starts one"
        return SwarmFault("server_unhealthy", text)
    return SwarmFault(
        "server_unhealthy", text, tuple(evidence(server_session.log_lines(swarm_run.server_dir.log), "its log"))
    )


def require_offline(swarm_run: SwarmRun, say: Say) -> None:
    """An engine that is not off trains another run: refuse or stop it, never use it."""
    poll = swarm_run.server().poll()
    if poll.status == OFFLINE:
        return
    if not poll.status:
        raise SwarmFault("server_unhealthy", f"the engine's status cannot be read: {poll.trouble}")
    state = f"the engine is {poll.status}" + (f" at global_step {poll.step}" if poll.step is not None else "")
    if swarm_run.swarm.on_busy != "stop":
        hint = "`- swarm_on_busy: stop` stops it first"
        raise SwarmFault("engine_busy", f"{state}: another run has it; {hint}")
    say(f"{TAG}{state}: it is stopped")
    _stop(swarm_run)


def stop_own_engine(swarm_run: SwarmRun, say: Say) -> None:
    """Stop the engine that the check has booted: the run trains with a fresh one."""
    if swarm_run.server().poll().status != OFFLINE:
        say(f"{TAG}the engine that the check has booted is stopped")
        _stop(swarm_run)


def _stop(swarm_run: SwarmRun) -> None:
    if trouble := swarm_run.server().stop():
        raise SwarmFault("engine_stuck", f"the engine cannot be stopped: {trouble}")
