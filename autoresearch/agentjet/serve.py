"""The program of the server's session: the swarm server itself, or the forward to one on another machine.

It runs under a Runner of its own, which keeps the log and the exit code and ends the process tree. In addition it ends
with its run, whatever happened to the run's Runner, and restarts a dropped forward.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time

from autoresearch.agentjet.child import Child, SignalRelay, listening_to_signals, shell
from autoresearch.agentjet.swarm_run import SwarmRun, port_of
from autoresearch.core.run.server import Say
from autoresearch.core.run.swarm import Swarm
from autoresearch.records.rundir import is_locked

LOOK_S = 1.0  # how soon a dead Runner of the client is noticed
STEADY_S = 60.0  # a forward that held for so long is restarted at once
LONGEST_S = 30.0
DOCKER_S = 30.0


def serve(swarm_run: SwarmRun, say: Say) -> int:
    """Serve until the server or the run ends. Returns the server's exit code, as `subprocess` has it; 0 for a server
    that was told to end, whatever it makes of that (`ajet-swarm start` exits with 143).
    """
    with listening_to_signals() as relay:
        if swarm_run.swarm.ssh:
            return _forward(swarm_run, relay, say)
        child = shell(swarm_run.swarm.named_container(swarm_run.session), swarm_run.spec.cwd, os.environ)
        return _watched(swarm_run, child, relay, say)


def forward_words(swarm: Swarm, port: int) -> list[str]:
    """The ssh command that forwards the server's port: it never prompts, and ends when the link is dead."""
    options = ("ExitOnForwardFailure=yes", "ServerAliveInterval=15", "ServerAliveCountMax=3", "BatchMode=yes")
    words = [word for option in options for word in ("-o", option)]
    return ["ssh", "-N", *words, "-L", f"127.0.0.1:{port}:{swarm.remote_address}", *shlex.split(swarm.ssh)]


def end_container(swarm_run: SwarmRun) -> None:
    """Stop and remove the server's container by its name; silent if there is none."""
    if not swarm_run.swarm.container:
        return
    name = swarm_run.swarm.container_name or swarm_run.session
    program = re.split(r"\s+(?:container\s+)?run\s", swarm_run.swarm.server.strip(), maxsplit=1)[0].split()
    for verb in (["stop", "-t", "10", name], ["rm", "-f", name]):
        try:
            subprocess.run([*program, *verb], stdin=subprocess.DEVNULL, capture_output=True, timeout=DOCKER_S)
        except (OSError, subprocess.TimeoutExpired):
            return


def _forward(swarm_run: SwarmRun, relay: SignalRelay, say: Say) -> int:
    pause = 1.0
    while True:
        words = forward_words(swarm_run.swarm, port_of(swarm_run.url()))
        began = time.monotonic()
        say(f"$ {shlex.join(words)}")
        code = _watched(swarm_run, Child(words, swarm_run.spec.cwd, os.environ), relay, say)
        if relay.number or not is_locked(swarm_run.rundir.lock):
            return code
        pause = 1.0 if time.monotonic() - began >= STEADY_S else min(2 * pause, LONGEST_S)
        say(f"the forward ended ({code}); again in {pause:.0f} s")
        until = time.monotonic() + pause
        while time.monotonic() < until and not relay.number:
            time.sleep(0.1)


def _watched(swarm_run: SwarmRun, child: Child, relay: SignalRelay, say: Say) -> int:
    """Its return code once it has ended by itself; 0 if it was told to end, or the run is over."""
    relay.children[:] = [child]
    ended_by_us = False
    try:
        while not child.ended(LOOK_S) and not relay.number:
            if not is_locked(swarm_run.rundir.lock):
                say(f"the run {swarm_run.spec.run} is over: its server ends")
                break
        ended_by_us = relay.number != 0 or not child.ended(0.0)
        if ended_by_us:
            end_container(swarm_run)
            child.end(signalled=relay.number != 0)
    finally:
        relay.children.clear()
        child.close()
    return 0 if ended_by_us else child.returncode or 0
