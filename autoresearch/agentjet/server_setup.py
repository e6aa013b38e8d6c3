"""What swarm mode adds to a run before it starts: steps around the client, metrics files, findings."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Blueprint, Notes
from autoresearch.core.metrics.swarm_evaluations import COLLECTED_REWARD, PREFIX
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.swarm import Swarm, is_url
from autoresearch.core.run.targets import Target
from autoresearch.core.run.trainer import Source, SourceFormat

_RUN_DIR = '"$AUTORESEARCH_RUN_DIR"'
_URL_VARIABLE = re.compile(r"\bAJET_SWARM_URL=[\"']?(https?://[^\s\"';&|]+)")
_CLIENTS_OWN = re.compile(r"(?<![\w/@.-])(?=(?:task_pass_rate@\d{1,6}|mean_reward|std_reward)(?![\w/@.-]))")
_AUTHORITY = {"val_results.md": 0, "train_results.md": 20, "server": 90}


def program(name: str, run_dir: str) -> str:
    """The shell command for one of the room's own programs; `run_dir` is already quoted."""
    return f"{shlex.quote(sys.executable)} -P -m autoresearch swarm {name} {run_dir}"


def recorded_metric(metric: str, notes: Notes) -> str:
    """A metric as it is recorded: names of the client's evaluations differ from those of classic mode.

    They stay as they are if a metrics file of another kind, with its own names, is declared.
    """
    own_files = all(source.format is SourceFormat.SWARM_VAL for source in notes.source)
    return _CLIENTS_OWN.sub(PREFIX, metric) if own_files else metric


def server_elsewhere(notes: Notes) -> bool:
    """Whether the GPUs belong to a machine where this run does not start the server."""
    return not (notes.swarm and notes.swarm.server)


def with_server(spec: RunSpec, blueprint: Blueprint) -> RunSpec:
    """The run with its server, started before the client and ended after it."""
    objective = spec.objective
    if objective:
        objective = replace(objective, metric=recorded_metric(objective.metric, blueprint.notes))
    return replace(
        spec,
        swarm=_swarm(blueprint),
        objective=objective,
        prepare=(*spec.prepare, program("up", _RUN_DIR)),
        cleanup=(program("down", _RUN_DIR), *spec.cleanup),
    )


def start_command(spec: RunSpec) -> str:
    """The command that the Runner starts instead of the client's; "" if it starts that itself."""
    return f"exec {program('client', _RUN_DIR)}" if spec.swarm else ""


def with_server_metrics(spec: RunSpec) -> RunSpec:
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


def check_server(blueprint: Blueprint, targets: Sequence[Target], parallel: int) -> tuple[Finding, ...]:
    """Errors for what the server cannot do, and warnings about what it does."""
    swarm = _swarm(blueprint)
    remote = (_remote(target) for target in targets if not target.is_local)
    return (*_one_for_all(swarm, parallel), *remote, *_remarks(swarm, blueprint))


def _one_for_all(swarm: Swarm, parallel: int) -> Iterator[Finding]:
    if parallel > 1 and not (swarm.server and swarm.port is None):
        message = f"{parallel} runs side by side would share one swarm server"
        message += ", and its engine trains one client at a time"
        hint = "`- swarm_server: ajet-swarm start --swarm-port=$AJET_SWARM_PORT` gives each its own; or --parallel 1"
        yield Finding(Severity.ERROR, "one_swarm_server", message, hint)


def _remote(target: Target) -> Finding:
    """Both sessions, and what checks them, are on this machine."""
    message = f"the two sessions of swarm mode are started on this machine, and {target.name} is not this machine"
    hint = "--launcher local where its server or its client is to be; `- swarm_ssh: HOST` reaches a server elsewhere"
    return Finding(Severity.ERROR, "swarm_is_local", message, hint)


def _remarks(swarm: Swarm, blueprint: Blueprint) -> Iterator[Finding]:
    if not swarm.starts_session:
        where = swarm.url or "AJET_SWARM_URL, or http://127.0.0.1:10086"
        message, hint = f"no server is started: there must be one at {where}", "`- swarm_server: ...` starts one"
        yield _warning("swarm_no_server", message, hint, blueprint)
    metric = blueprint.notes.metric
    if metric.startswith("critic/") and not swarm.server:
        message = f"{metric} stands in the server's log, which is not here"
        hint = f"`- metric: {COLLECTED_REWARD}` is what the server's pool shows: more episodes than it then trains on"
        yield _warning("swarm_metric_elsewhere", message, hint, blueprint)
    if (name := recorded_metric(metric, blueprint.notes)) != metric:
        message = f"the metric is recorded as {name}: classic mode counts it otherwise"
        yield _warning("swarm_metric", message, f"write `- metric: {name}`", blueprint)


def _swarm(blueprint: Blueprint) -> Swarm:
    """The swarm of the notes, with the server's address from the command or its variables if they have none."""
    swarm = blueprint.notes.swarm or Swarm()
    if swarm.url or swarm.starts_session:
        return swarm
    return replace(swarm, url=_url_in(blueprint.launch_command, blueprint.notes.env))


def _url_in(command: str, env: Mapping[str, str]) -> str:
    assigned = _URL_VARIABLE.search(command)
    url = (assigned[1] if assigned else env.get("AJET_SWARM_URL", "")).rstrip("/")
    return url if is_url(url) else ""


def _warning(code: str, message: str, hint: str, blueprint: Blueprint) -> Finding:
    return Finding(Severity.WARNING, code, message, hint, blueprint.name, blueprint.lines.get("notes", 0))
