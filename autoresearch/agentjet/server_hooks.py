"""What swarm mode adds to a run: findings before it starts, steps around the client, metrics files, its programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from autoresearch.agentjet.child import program
from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Blueprint, Notes
from autoresearch.core.metrics.swarm_evaluations import COLLECTED_REWARD, PREFIX
from autoresearch.core.run.server import EndProcesses, HostServices, Say
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.swarm import Swarm, is_url
from autoresearch.core.run.targets import Target
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.core.text.regex import later
from autoresearch.errors import ConflictError, UsageError

PROGRAMS = ("up", "serve", "client")

_RUN_DIR = '"$AUTORESEARCH_RUN_DIR"'
_URL_VARIABLE = later(r"\bAJET_SWARM_URL=[\"']?(https?://[^\s\"';&|]+)")
_CLIENTS_OWN = later(r"(?<![\w/@.-])(?=(?:task_pass_rate@\d{1,6}|mean_reward|std_reward)(?![\w/@.-]))")


class ServerHooks:
    """The hooks of a trainer whose engine is a swarm server: `HasServer` and `HasPrograms` of core/run/server.py."""

    __slots__ = ()

    def declared_by(self, notes: Notes) -> bool:
        """Whether there are `swarm_` notes."""
        return notes.swarm is not None

    def recorded_metric(self, metric: str, notes: Notes) -> str:
        """Names of the client's evaluations differ from those of classic mode.

        They stay as they are if a metrics file of another kind, with its own names, is declared.
        """
        own_files = all(source.format is SourceFormat.SWARM_VAL for source in notes.source)
        return _CLIENTS_OWN.sub(PREFIX, metric) if own_files else metric

    def server_elsewhere(self, notes: Notes) -> bool:
        """Whether the GPUs belong to a machine where this run does not start the server."""
        return not (notes.swarm and notes.swarm.server)

    def check_server(
        self, blueprint: Blueprint, targets: Sequence[Target] = (), parallel: int = 1
    ) -> tuple[Finding, ...]:
        """Errors for what the server cannot do, and warnings about what it does."""
        recorded = self.recorded_metric(blueprint.notes.metric, blueprint.notes)
        return tuple(_check_server(_swarm(blueprint), blueprint, targets, parallel, recorded))

    def with_server(self, spec: RunSpec, blueprint: Blueprint) -> RunSpec:
        """The run with its server, started before the client and ended after it."""
        objective = spec.objective
        if objective:
            objective = replace(objective, metric=self.recorded_metric(objective.metric, blueprint.notes))
        return replace(
            spec,
            swarm=_swarm(blueprint),
            objective=objective,
            prepare=(*spec.prepare, program("up", _RUN_DIR)),
            cleanup=(program("down", _RUN_DIR), *spec.cleanup),
        )

    def check_port(self, spec: RunSpec) -> None:
        """Raises ConflictError if the port of this run's server is in use."""
        from autoresearch.agentjet.server import listening  # it costs an HTTP client, as the other two do

        port = spec.swarm.port if spec.swarm and spec.swarm.server else None
        if port is not None and listening(port):
            raise ConflictError(
                f"port {port} of this run's swarm server is taken by somebody else",
                hint="end that server, or write --swarm-port=$AJET_SWARM_PORT, which takes any free one",
                code="port_taken",
            )

    def with_server_metrics(self, spec: RunSpec) -> RunSpec:
        """The run with the metrics files in its final directories: its own and its server's."""
        if spec.swarm is None:
            return spec
        usual = (
            Source(SourceFormat.SWARM_VAL, str(Path(spec.result_dir, "val_results.md")), 0),
            Source(SourceFormat.DICT_LINES, str(Path(spec.result_dir, "train_results.md")), 20),
            Source(SourceFormat.CONSOLE, f"{spec.run_dir}/server/run.log", 90),
        )
        known = {source.path for source in spec.sources}
        return replace(spec, sources=(*spec.sources, *(source for source in usual if source.path not in known)))

    def start_command(self, spec: RunSpec) -> str:
        """The command that the Runner starts instead of the client's; "" if it starts that itself."""
        return f"exec {program('client', _RUN_DIR)}" if spec.swarm else ""

    def stop_server(self, run_dir: str, end_processes: EndProcesses, say: Say) -> bool:
        from autoresearch.agentjet import server

        return server.stop(run_dir, end_processes, say)

    def run_program(self, program: str, run_dir: str, services: HostServices, say: Say) -> int:
        """Run one to its end; returns the exit code, 3 for a run that cannot go on (its lines say why)."""
        from autoresearch.agentjet import client, gate, server
        from autoresearch.agentjet.child import pass_on
        from autoresearch.agentjet.engine import SwarmFault

        if program not in PROGRAMS:
            raise UsageError(f"{program!r} is no program of a swarm run", hint=", ".join(PROGRAMS))
        given = server.read(run_dir)
        try:
            if program == "serve":
                return pass_on(server.serve(given, say))
            if program == "client":
                return client.client(given, say)
            gate.up(given, services, say)
        except SwarmFault as fault:
            for line in fault.lines():
                say(line)
            return client.EXIT
        return 0


def _check_server(
    swarm: Swarm, blueprint: Blueprint, targets: Sequence[Target], parallel: int, recorded: str
) -> Iterator[Finding]:
    def warning(code: str, message: str, hint: str) -> Finding:
        return Finding(Severity.WARNING, code, message, hint, blueprint.name, blueprint.lines.get("notes", 0))

    if parallel > 1 and not (swarm.server and swarm.port is None):
        message = f"{parallel} runs side by side would share one swarm server"
        message += ", and its engine trains one client at a time"
        hint = "`- swarm_server: ajet-swarm start --swarm-port=$AJET_SWARM_PORT` gives each its own; or --parallel 1"
        yield Finding(Severity.ERROR, "one_swarm_server", message, hint)
    for target in (target for target in targets if not target.is_local):  # as both sessions, and what checks them, are
        message = f"the two sessions of swarm mode are started on this machine, and {target.name} is not this machine"
        hint = "--launcher local where its server or its client is to be; "
        hint += "`- swarm_ssh: HOST` reaches a server elsewhere"
        yield Finding(Severity.ERROR, "swarm_is_local", message, hint)
    if not swarm.starts_session:
        where = swarm.url or "AJET_SWARM_URL, or http://127.0.0.1:10086"
        message, hint = f"no server is started: there must be one at {where}", "`- swarm_server: ...` starts one"
        yield warning("swarm_no_server", message, hint)
    metric = blueprint.notes.metric
    if metric.startswith("critic/") and not swarm.server:
        message = f"{metric} stands in the server's log, which is not here"
        hint = f"`- metric: {COLLECTED_REWARD}` is what the server's pool shows: more episodes than it then trains on"
        yield warning("swarm_metric_elsewhere", message, hint)
    if recorded != metric:
        message = f"the metric is recorded as {recorded}: classic mode counts it otherwise"
        yield warning("swarm_metric", message, f"write `- metric: {recorded}`")


def _swarm(blueprint: Blueprint) -> Swarm:
    """The swarm of the notes, with the server's address from the command or its variables if they have none."""
    swarm = blueprint.notes.swarm or Swarm()
    if swarm.url or swarm.starts_session:
        return swarm
    assigned = _URL_VARIABLE.search(blueprint.launch_command)
    url = (assigned[1] if assigned else blueprint.notes.env.get("AJET_SWARM_URL", "")).rstrip("/")
    return replace(swarm, url=url if is_url(url) else "")
