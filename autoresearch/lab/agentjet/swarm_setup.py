"""What swarm mode adds to a run before it starts: steps around the client, metrics files, remarks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.metrics.swarm_evaluations import PREFIX
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.swarm import Swarm, is_url
from autoresearch.core.run.targets import Target
from autoresearch.core.run.trainer import Source, SourceFormat, Trainer
from autoresearch.errors import ConflictError
from autoresearch.lab.agentjet import swarm_dir
from autoresearch.lab.agentjet.server_session import program
from autoresearch.trainers import registry

TRAINER = "agentjet_swarm"
_RUN_DIR = '"$AUTORESEARCH_RUN_DIR"'
_TOLD = re.compile(r"\bAJET_SWARM_URL=[\"']?(https?://[^\s\"';&|]+)")
_ITS_OWN = re.compile(r"(?<![\w/@.-])(?=(?:task_pass_rate@\d{1,6}|mean_reward|std_reward)(?![\w/@.-]))")
_AUTHORITY = {"val_results.md": 0, "train_results.md": 20, "server": 90}


def trainer_of(blueprint: Blueprint, wanted: str = "") -> Trainer:
    """The trainer of a blueprint: the requested or noted one, else by its swarm notes or its command."""
    notes = blueprint.notes
    name = wanted or notes.trainer or (TRAINER if notes.swarm else "")
    return registry.choose(name, blueprint.launch_command, notes.lines)


def named_here(metric: str, trainer: str, blueprint: Blueprint) -> str:
    """A metric as it is recorded: names of the client's evaluations differ from those of classic mode."""
    return _ITS_OWN.sub(PREFIX, metric) if trainer == TRAINER and _own_files(blueprint) else metric


def arrange(spec: RunSpec, blueprint: Blueprint) -> RunSpec:
    """The run with its server's half, if it uses swarm mode."""
    if spec.trainer != TRAINER:
        return spec
    swarm = blueprint.notes.swarm or Swarm()
    if not swarm.url and not swarm.ours:
        swarm = replace(swarm, url=_told(blueprint.launch_command, blueprint.notes.env))
    objective = spec.objective
    if objective:
        objective = replace(objective, metric=named_here(objective.metric, TRAINER, blueprint))
    return replace(
        spec,
        swarm=swarm,
        objective=objective,
        prepare=(*spec.prepare, program("up", _RUN_DIR)),
        cleanup=(program("down", _RUN_DIR), *spec.cleanup),
    )


def start_command(spec: RunSpec) -> str:
    """The command that the Runner starts instead of the client's; "" if it starts that itself."""
    return f"exec {program('client', _RUN_DIR)}" if spec.swarm else ""


def located(spec: RunSpec) -> RunSpec:
    """The run with the metrics files in its final directories: its own and its server's."""
    if spec.swarm is None:
        return spec
    result_dir, authority = Path(spec.result_dir), _AUTHORITY
    usual = [
        Source(SourceFormat.SWARM_VAL, str(result_dir / "val_results.md"), authority["val_results.md"]),
        Source(SourceFormat.DICT_LINES, str(result_dir / "train_results.md"), authority["train_results.md"]),
        Source(SourceFormat.CONSOLE, f"{spec.run_dir}/server/run.log", authority["server"]),
    ]
    known = {source.path for source in spec.sources}
    return replace(spec, sources=(*spec.sources, *(source for source in usual if source.path not in known)))


def refuse_taken_port(spec: RunSpec) -> None:
    """Raise ConflictError if the port of this run's server is in use."""
    port = spec.swarm.port if spec.swarm and spec.swarm.server else None
    if port is not None and swarm_dir.listening(port):
        raise ConflictError(
            f"port {port} of this run's swarm server is taken by somebody else",
            hint="end that server, or write --swarm-port=$AJET_SWARM_PORT, which takes any free one",
            code="port_taken",
        )


def findings(spec: RunSpec, blueprint: Blueprint) -> tuple[Finding, ...]:
    """Remarks on the server's half."""
    swarm = spec.swarm
    if swarm is None:
        if blueprint.notes.swarm is None:
            return ()
        message = f"the `swarm_` notes are not read: the trainer is {spec.trainer}"
        return (_warning("swarm_ignored", message, "take `trainer:` out of the notes, or them", blueprint),)
    found = []
    if not swarm.ours:
        where = swarm.url or "AJET_SWARM_URL, or http://127.0.0.1:10086"
        message, hint = f"no server is started: there must be one at {where}", "`- swarm_server: ...` starts one"
        found.append(_warning("swarm_no_server", message, hint, blueprint))
    asked = blueprint.notes.metric
    if (name := named_here(asked, TRAINER, blueprint)) != asked:
        message = f"the metric is recorded as {name}: classic mode counts it otherwise"
        found.append(_warning("swarm_metric", message, f"write `- metric: {name}`", blueprint))
    return tuple(found)


def engine_elsewhere(trainer: str, blueprint: Blueprint) -> bool:
    """Whether the GPUs belong to a machine where this run does not start the server."""
    return trainer == TRAINER and not (blueprint.notes.swarm and blueprint.notes.swarm.server)


def one_server_for_all(trainer: str, blueprint: Blueprint, parallel: int) -> tuple[Finding, ...]:
    """An error if parallel runs would share one server, whose engine trains one client at a time."""
    swarm = blueprint.notes.swarm
    if trainer != TRAINER or parallel < 2 or (swarm and swarm.server and swarm.port is None):
        return ()
    message = f"{parallel} runs side by side would share one swarm server, and its engine trains one client at a time"
    hint = "`- swarm_server: ajet-swarm start --swarm-port=$AJET_SWARM_PORT` gives each its own; or --parallel 1"
    return (Finding(Severity.ERROR, "one_swarm_server", message, hint),)


def only_here(trainer: str, where: Target) -> tuple[Finding, ...]:
    """An error if a run of swarm mode had a remote target: its two sessions, and their checks, are local."""
    if trainer != TRAINER or where.is_local:
        return ()
    message = f"the two sessions of swarm mode are started on this machine, and {where.name} is not this machine"
    hint = "--launcher local where its server or its client is to be; `- swarm_ssh: HOST` reaches a server elsewhere"
    return (Finding(Severity.ERROR, "swarm_is_local", message, hint),)


def _warning(code: str, message: str, hint: str, blueprint: Blueprint) -> Finding:
    return Finding(Severity.WARNING, code, message, hint, blueprint.name, blueprint.lines.get("notes", 0))


def _own_files(blueprint: Blueprint) -> bool:
    """Whether no metrics file of another kind, with its own metric names, was declared."""
    return all(source.format is SourceFormat.SWARM_VAL for source in blueprint.notes.source)


def _told(command: str, env: Mapping[str, str]) -> str:
    found = _TOLD.search(command)
    url = (found[1] if found else env.get("AJET_SWARM_URL", "")).rstrip("/")
    return url if is_url(url) else ""
