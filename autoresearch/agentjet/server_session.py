"""The server's session: started under a Runner of its own, checked, and ended with its process tree."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from autoresearch.agentjet.server_setup import program
from autoresearch.agentjet.swarm_run import SwarmRun, no_colours, url_variables
from autoresearch.core.run.limits import MAX_TIME_S
from autoresearch.core.run.server import HostServices
from autoresearch.core.run.spec import RunState
from autoresearch.core.text.lines import logical_lines
from autoresearch.records.rundir import RunDir, read_json, write_atomically, write_json

RUNNER = Path(__file__).parents[1] / "runner"
TAIL_BYTES = 1 << 18
_NOT_INHERITED = ("AUTORESEARCH_RUN_ID", "AUTORESEARCH_RUN_DIR", "TMUX", "TMUX_PANE")


def start(swarm_run: SwarmRun, services: HostServices) -> None:
    """Start the server's Runner in its session, without waiting for the server."""
    server = swarm_run.server_dir
    server.path.mkdir()
    write_json(server.spec, _spec(swarm_run), executed=True)
    environment = {**_environment(swarm_run), **url_variables(swarm_run.url())}
    pairs = b"\0".join(f"{k}={v}".encode("utf-8", "surrogateescape") for k, v in environment.items())
    write_atomically(server.environment, pairs, mode=0o600, durable=False)
    client = read_json(swarm_run.rundir.session) or {}
    argv = [sys.executable, "-S", "-E", "-s", str(RUNNER), str(server.path)]
    marker = {"AUTORESEARCH_RUN_ID": swarm_run.server_run}
    socket = str(client.get("socket") or "")
    record = services.start_session(socket, swarm_run.session, argv, swarm_run.spec.cwd, marker)
    write_json(server.session, record, durable=False)


def _spec(swarm_run: SwarmRun) -> Mapping[str, object]:
    """The spec of the server's Runner: no signals, no collector, and a limit far beyond the run's own."""
    spec = swarm_run.spec
    return {
        "schema": 1,
        "run": swarm_run.server_run,
        "command": "exec " + program("serve", shlex.quote(str(swarm_run.rundir.path))),
        "cwd": spec.cwd,
        "interpreter": spec.interpreter,
        "result_dir": spec.result_dir,
        "limits": {"max_s": spec.limits.max_s + MAX_TIME_S, "grace_s": spec.limits.grace_s},
    }


def _environment(swarm_run: SwarmRun) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {**own, **no_colours(own)}


def alive(swarm_run: SwarmRun) -> bool:
    """Whether the server's Runner lives or is starting."""
    return swarm_run.server_dir.state() in (RunState.STARTING, RunState.RUNNING, RunState.STOPPING)


def how_it_ended(swarm_run: SwarmRun) -> str:
    """Why the server ended, in words; "" while it lives."""
    record = read_json(swarm_run.server_dir.exit_record)
    if record is not None:
        return str(record.get("reason") or record.get("ending") or "it ended")
    return "" if alive(swarm_run) else "its Runner died without a record"


def end(swarm_run: SwarmRun, *, stop_s: float, clock: Callable[[], float] = time.monotonic) -> None:
    """INT to the server, then its Runner's own stop; returns once the Runner has recorded the end, or is dead."""
    server = swarm_run.server_dir
    if not server.path.is_dir():
        return
    identity = read_json(server.runner) or {}
    pid = identity.get("trainer_pid")
    if isinstance(pid, int) and alive(swarm_run) and _same(pid, identity.get("trainer_start_ticks")):
        _interrupt(pid)
        _until_over(server, clock() + stop_s / 2, clock)
    write_json(server.stop, {"how": "now", "reason": f"the run {swarm_run.spec.run} is over"}, durable=False)
    _until_over(server, clock() + stop_s, clock)


def _until_over(server: RunDir, until: float, clock: Callable[[], float]) -> None:
    while clock() < until and server.state() not in (RunState.ENDED, RunState.DEAD):
        time.sleep(0.05)


def _same(pid: int, ticks: object) -> bool:
    """Whether this pid still belongs to the process in runner.json."""
    from autoresearch.runner.processes import start_ticks

    return start_ticks(pid) == ticks


def _interrupt(pid: int) -> None:
    import signal

    try:
        os.kill(pid, signal.SIGINT)
    except OSError:
        pass  # gone meanwhile


def log_lines(log: Path, offset: int = 0) -> list[str]:
    """The stripped lines of a log from an offset on; only the end of a long one."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(offset, size - TAIL_BYTES))
            return list(logical_lines(file.read(TAIL_BYTES)))
    except OSError:
        return []
