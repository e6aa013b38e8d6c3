"""The programs of a swarm run that Runners start, `autoresearch swarm up|serve|client RUN_DIR`, by name."""

from __future__ import annotations

from autoresearch.agentjet import client, serve, swarm_run, up
from autoresearch.agentjet.child import pass_on
from autoresearch.agentjet.fault import EXIT, SwarmFault
from autoresearch.core.run.server import EndProcesses, HostServices, Say
from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import ConflictError, UsageError

PROGRAMS = ("up", "serve", "client")


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
    """Stop the engine, end the server, free its port; whether nothing of them is left."""
    from autoresearch.agentjet.down import down

    return down(swarm_run.read(run_dir), end_processes, say)


def check_port(spec: RunSpec) -> None:
    """Raise ConflictError if the port of this run's server is in use."""
    port = spec.swarm.port if spec.swarm and spec.swarm.server else None
    if port is not None and swarm_run.listening(port):
        raise ConflictError(
            f"port {port} of this run's swarm server is taken by somebody else",
            hint="end that server, or write --swarm-port=$AJET_SWARM_PORT, which takes any free one",
            code="port_taken",
        )
