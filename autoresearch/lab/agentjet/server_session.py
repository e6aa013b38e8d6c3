"""The server's session: started under a Runner of its own, checked, and ended with its process tree."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from autoresearch.core.run.limits import MAX_TIME_S
from autoresearch.core.run.spec import RunState
from autoresearch.core.text.lines import logical_lines
from autoresearch.lab.agentjet.swarm_dir import SwarmDir, quiet, surroundings
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.sessions import session_info
from autoresearch.records.rundir import RunDir, read_json, write_atomically, write_json

RUNNER = Path(__file__).parents[2] / "runner"
TAIL_BYTES = 1 << 18
_NOT_INHERITED = ("AUTORESEARCH_RUN_ID", "AUTORESEARCH_RUN_DIR", "TMUX", "TMUX_PANE")


def program(verb: str, run_dir: str) -> str:
    """The shell command for one of our own swarm programs; `run_dir` is already quoted."""
    return f"{shlex.quote(sys.executable)} -P -m autoresearch swarm {verb} {run_dir}"


def start(place: SwarmDir, parts: Parts) -> None:
    """Start the server's Runner in its session, without waiting for the server."""
    server = place.server_dir
    server.path.mkdir()
    write_json(server.spec, _spec(place), executed=True)
    environment = {**_environment(place), **surroundings(place.url())}
    pairs = b"\0".join(f"{k}={v}".encode("utf-8", "surrogateescape") for k, v in environment.items())
    write_atomically(server.environment, pairs, mode=0o600, durable=False)
    beside = session_info(place.rundir)
    launcher = parts.launcher(beside.socket if beside else "")
    argv = [sys.executable, "-S", "-E", "-s", str(RUNNER), str(server.path)]
    marker = {"AUTORESEARCH_RUN_ID": place.server_run}
    info = launcher.start(place.session, argv, cwd=Path(place.spec.cwd), environment=marker)
    write_json(server.session, asdict(info), durable=False)


def _spec(place: SwarmDir) -> Mapping[str, object]:
    """The spec of the server's Runner: no signals, no collector, and a limit far beyond the run's own."""
    spec = place.spec
    return {
        "schema": 1,
        "run": place.server_run,
        "command": "exec " + program("serve", shlex.quote(str(place.rundir.path))),
        "cwd": spec.cwd,
        "interpreter": spec.interpreter,
        "result_dir": spec.result_dir,
        "limits": {"max_s": spec.limits.max_s + MAX_TIME_S, "grace_s": spec.limits.grace_s},
    }


def _environment(place: SwarmDir) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {**own, **quiet(own)}


def alive(place: SwarmDir) -> bool:
    """Whether the server's Runner lives or is starting."""
    return place.server_dir.state() in (RunState.STARTING, RunState.RUNNING, RunState.STOPPING)


def how_it_ended(place: SwarmDir) -> str:
    """Why the server ended, in words; "" while it lives."""
    record = read_json(place.server_dir.exit_record)
    if record is not None:
        return str(record.get("reason") or record.get("ending") or "it ended")
    return "" if alive(place) else "its Runner died without a record"


def end(place: SwarmDir, *, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
    """INT to the server, then its Runner's own stop; returns once the Runner has recorded the end, or is dead."""
    server = place.server_dir
    if not server.path.is_dir():
        return
    identity = read_json(server.runner) or {}
    pid = identity.get("trainer_pid")
    if isinstance(pid, int) and alive(place) and _same(pid, identity.get("trainer_start_ticks")):
        _interrupt(pid)
        _until_over(server, clock() + patience_s / 2, clock)
    write_json(server.stop, {"how": "now", "reason": f"the run {place.spec.run} is over"}, durable=False)
    _until_over(server, clock() + patience_s, clock)


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
