"""The server half of a swarm run: its files, its address, the session that it lives in, and what it answers.

<run dir>/swarm.json    the server's address, and whether this run owns its engine
<run dir>/gate.log      the output of the one-episode check
<run dir>/server/       the run directory of the server's own Runner: run.log, exit.json, session.json ...

The session runs `autoresearch swarm serve RUN_DIR`: the swarm server itself, or the forward to one on another machine,
under a Runner of its own, which keeps the log and the exit code and ends the process tree. In addition it ends with its
run, whatever happened to the run's Runner, and restarts a dropped forward.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.agentjet.child import Child, SignalRelay, listening_to_signals, program, shell
from autoresearch.agentjet.engine import OFFLINE, TAG, EnginePoll, SwarmFault, parse_poll
from autoresearch.core.diagnosis.root import classify, last_traceback
from autoresearch.core.run.hooks import HostServices, Say
from autoresearch.core.run.limits import MAX_TIME_S
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.core.run.swarm import PORT, Swarm
from autoresearch.errors import UsageError
from autoresearch.records import recorded_run
from autoresearch.records.files import read_json, write_environment, write_json
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import is_locked
from autoresearch.runner.processes import start_ticks
from autoresearch.runner.text import logical_lines

ANSWER_S = 5.0
STOP_ENGINE_S = 45.0  # /stop_engine ends a tree with 16 s of grace, and blocks the server meanwhile
STOP_SERVER_S = 40.0
PORT_FREE_S = 10.0
LOOK_S = 1.0  # how soon a dead Runner of the client is noticed
STEADY_S = 60.0  # a forward that held for so long is restarted at once
LONGEST_S = 30.0
DOCKER_S = 30.0
TAIL_BYTES = 1 << 18
SHOWN = 25  # lines of a log without a traceback
SUFFIX = "_srv"

_RUNNER = Path(__file__).parents[1] / "runner"
_NOT_INHERITED = ("AUTORESEARCH_RUN_ID", "AUTORESEARCH_RUN_DIR", "TMUX", "TMUX_PANE")
_NO_COLOURS = {"NO_COLOR": "1", "LOGURU_COLORIZE": "NO", "RAY_COLOR_PREFIX": "0"}


@dataclass(frozen=True, slots=True)
class SwarmRun:
    """The two halves of one run: every path and name."""

    rundir: RunDir
    spec: RunSpec
    swarm: Swarm

    @property
    def server_dir(self) -> RunDir:
        return RunDir(self.rundir.path / "server")

    @property
    def state_file(self) -> Path:
        return self.rundir.path / "swarm.json"

    @property
    def gate_log(self) -> Path:
        return self.rundir.path / "gate.log"

    @property
    def session(self) -> str:
        """`ajet_<slug>_<id>_srv`, within the 60 characters after `ajet_`."""
        return server_session(self.spec.session)

    @property
    def server_run(self) -> str:
        """The run id of the server's processes: it differs from the client's, whose Runner must spare them."""
        return f"{self.spec.run}{SUFFIX}"

    @property
    def what(self) -> str:
        """What the session holds, for messages."""
        return "forward" if self.swarm.ssh else "server"

    def url(self) -> str:
        """The server's address; "" before it is known."""
        return str((read_json(self.state_file) or {}).get("url") or "")

    def server(self) -> SwarmServer:
        return SwarmServer(self.url())

    def owns_engine(self) -> bool:
        """Whether this run saw the engine offline first, so that its later work is this run's."""
        return bool((read_json(self.state_file) or {}).get("owned"))

    def record(self, **more: object) -> None:
        """Record something about the server in one small file, replaced by a rename."""
        write_json(self.state_file, {**(read_json(self.state_file) or {}), **more}, durable=False)

    def server_log(self, offset: int = 0) -> list[str]:
        """The last lines of the server's log, from an offset on."""
        return log_lines(self.server_dir.log, offset)

    def fault(self, kind: str, text: str, lines: Sequence[str], whose: str) -> SwarmFault:
        """A fault with the cause that these lines of a log show, and the lines that show it."""
        cause = root_cause(lines)
        return SwarmFault(kind, text + (f": {cause}" if cause else ""), evidence(lines, whose))

    def server_alive(self) -> bool:
        """Whether the server's Runner lives or is starting."""
        return self.server_dir.state() in (RunState.STARTING, RunState.RUNNING, RunState.STOPPING)

    def require_server(self, when: str) -> None:
        """Raise SwarmFault if the server that this run started has ended, with the cause from its log."""
        if not self.swarm.starts_session:
            return
        record = read_json(self.server_dir.exit_record)
        if record is None and self.server_alive():
            return
        how = "its Runner died without a record"
        if record is not None:
            how = str(record.get("reason") or record.get("ending") or "it ended")
        text = f"the {self.what} ended {when}: {how}"
        raise self.fault("server_died", text, self.server_log(), f"the {self.what}'s log")


def server_session(session: str) -> str:
    """The name of the server's session, beside the client's."""
    return f"{session[: 65 - len(SUFFIX)]}{SUFFIX}"


def read(run_dir: str) -> SwarmRun:
    """Read a run's spec. Raises UsageError for one that is not in swarm mode."""
    rundir = RunDir(Path(run_dir))
    spec = recorded_run.read(rundir)
    if spec.swarm is None:
        raise UsageError(f"{rundir.path.name} is no run of swarm mode", hint="its blueprint has no `swarm_` notes")
    return SwarmRun(rundir, spec, spec.swarm)


def log_lines(log: Path, offset: int = 0) -> list[str]:
    """The stripped lines of a log from an offset on; only the end of a long one."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(offset, size - TAIL_BYTES))
            return list(logical_lines(file.read(TAIL_BYTES)))
    except OSError:
        return []


def root_cause(lines: Sequence[str]) -> str:
    """The line of a log that explains most; "" without any."""
    failure = classify(lines)
    return failure.line if failure else ""


def evidence(lines: Sequence[str], whose: str) -> tuple[str, ...]:
    """The last traceback of a log, else its last lines, for the run's log, which `explain` reads."""
    shown = last_traceback(lines).splitlines() or list(lines[-SHOWN:])
    return (f"{TAG}{whose} ends with:", *shown[-2 * SHOWN :]) if shown else ()


def choose_url(swarm: Swarm, environ: Mapping[str, str]) -> str:
    """The server's address, from the notes, the caller's AJET_SWARM_URL, the command's port, or a free port.

    A forward gets the server's remote port, unless it is taken locally.
    """
    if swarm.ssh:
        port = swarm.port or PORT
        return f"http://127.0.0.1:{free_port() if listening(port) else port}"
    if swarm.url:
        return swarm.url
    if not swarm.starts_session and environ.get("AJET_SWARM_URL"):
        return environ["AJET_SWARM_URL"].rstrip("/")
    return f"http://127.0.0.1:{swarm.port or free_port()}"


def port_of(url: str) -> int:
    """The port of an address that `is_url`."""
    tail = url.rpartition(":")[2].rstrip("/")
    return int(tail) if tail.isdecimal() else PORT


def url_variables(url: str) -> dict[str, str]:
    """The variables that server, check and client get beside the run's own."""
    return {"AJET_SWARM_URL": url, "AJET_SWARM_PORT": str(port_of(url))}


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def listening(port: int) -> bool:
    """Whether a program listens on this local port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass(frozen=True, slots=True)
class SwarmServer:
    """One server, by its address; proxies are bypassed, as the address is local or a forward."""

    url: str

    def healthy(self) -> str:
        """ "" if GET /health answers ok, else why not."""
        answer, trouble = self._ask("/health")
        return "" if answer.get("status") == "ok" else trouble or f"/health says {str(answer)[:80]}"

    def poll(self) -> EnginePoll:
        """Current status and pool; an unreadable pool leaves the counters at 0."""
        status, trouble = self._ask("/get_engine_status")
        if trouble:
            return EnginePoll(trouble=trouble)
        pool, _ = self._ask("/get_current_batch_rollout_pool_information")
        return parse_poll(status, pool)

    def stop(self) -> str:
        """POST /stop_engine and wait until the engine is offline; "" on success, else the obstacle."""
        until = time.monotonic() + STOP_ENGINE_S
        _, trouble = self._ask("/stop_engine", {}, STOP_ENGINE_S)
        while (poll := self.poll()).status != OFFLINE:
            if time.monotonic() >= until:
                return trouble or poll.trouble or f"the engine is still {poll.status} after {STOP_ENGINE_S:.0f} s"
            time.sleep(0.2)
        return ""

    def _ask(self, path: str, body: object = None, timeout: float = ANSWER_S) -> tuple[dict[str, object], str]:
        """The answered object, or {} and the reason."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout) as answer:
                value = json.loads(answer.read(1 << 22))
        except urllib.error.HTTPError as error:
            with error:
                return {}, f"HTTP {error.code} for {path}"
        except (OSError, ValueError, http.client.HTTPException) as error:  # refused, silent, torn, no JSON
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            return {}, f"{path}: {str(reason)[:160] or type(error).__name__}"
        return (value, "") if isinstance(value, dict) else ({}, f"{path} answers no object")


def start(swarm_run: SwarmRun, services: HostServices) -> None:
    """Start the server's Runner in its session, without waiting for the server."""
    server, spec = swarm_run.server_dir, swarm_run.spec
    server.path.mkdir()
    runner_spec = {  # no signals, no collector, and a limit far beyond the run's own
        "schema": 1,
        "run": swarm_run.server_run,
        "command": "exec " + program("serve", shlex.quote(str(swarm_run.rundir.path))),
        "cwd": spec.cwd,
        "interpreter": spec.interpreter,
        "result_dir": spec.result_dir,
        "limits": {"max_s": spec.limits.max_s + MAX_TIME_S, "grace_s": spec.limits.grace_s},
    }
    write_json(server.spec, runner_spec, executed=True)
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    environment = {**_NO_COLOURS, **inherited, **url_variables(swarm_run.url())}
    write_environment(server.environment, environment)
    socket_of_client = str((read_json(swarm_run.rundir.session) or {}).get("socket") or "")
    argv = [sys.executable, "-S", "-E", "-s", str(_RUNNER), str(server.path)]
    marker = {"AUTORESEARCH_RUN_ID": swarm_run.server_run}
    record = services.start_session(socket_of_client, swarm_run.session, argv, spec.cwd, marker)
    write_json(server.session, record, durable=False)


def stop(run_dir: str, end_processes: Callable[[str, float], int], say: Say) -> bool:
    """Stop the engine, end the server with its process tree, free its port; whether nothing of them is left.

    It comes after the client: a `cleanup` step of the run, after any ending and after a failed preparation. It is safe
    to repeat, and is also called when a run whose Runner was killed is recorded. By then the client has ended.
    """
    given = read(run_dir)
    url = given.url()
    if url and given.owns_engine() and (given.server_alive() or not given.swarm.starts_session):
        poll = given.server().poll()
        if poll.status not in ("", OFFLINE):
            trouble = given.server().stop()
            say(f"{TAG}the engine was {poll.status}: " + (f"it cannot be stopped: {trouble}" if trouble else "stopped"))
    if not given.swarm.starts_session or not given.server_dir.path.is_dir():
        return True
    _end_session(given)
    if given.server_dir.state() is not RunState.ENDED:
        count = end_processes(given.server_run, given.spec.limits.grace_s)
        say(f"{TAG}the server's Runner was dead; {count} processes of the server were ended")
    _end_container(given)
    if url and not _within(PORT_FREE_S, lambda: not listening(port_of(url))):
        say(f"{TAG}port {port_of(url)} is still taken")
        return False
    say(f"{TAG}the server is down" + (f" and port {port_of(url)} is free" if url else ""))
    return True


def _end_session(swarm_run: SwarmRun) -> None:
    """INT to the server, then its Runner's own stop; returns once the Runner has recorded the end, or is dead."""
    server = swarm_run.server_dir

    def over() -> bool:
        return not server.state().lives

    identity = read_json(server.runner) or {}
    pid = identity.get("trainer_pid")
    if isinstance(pid, int) and swarm_run.server_alive() and start_ticks(pid) == identity.get("trainer_start_ticks"):
        try:
            os.kill(pid, signal.SIGINT)
        except OSError:
            pass  # gone meanwhile
        _within(STOP_SERVER_S / 2, over)
    write_json(server.stop, {"how": "now", "reason": f"the run {swarm_run.spec.run} is over"}, durable=False)
    _within(STOP_SERVER_S, over)


def _within(seconds: float, done: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= until:
            return False
        time.sleep(0.05)
    return True


def _end_container(swarm_run: SwarmRun) -> None:
    """Stop and remove the server's container by its name; silent if there is none."""
    if not swarm_run.swarm.container:
        return
    name = swarm_run.swarm.container_name or swarm_run.session
    docker = re.split(r"\s+(?:container\s+)?run\s", swarm_run.swarm.server.strip(), maxsplit=1)[0].split()
    for verb in (["stop", "-t", "10", name], ["rm", "-f", name]):
        try:
            subprocess.run([*docker, *verb], stdin=subprocess.DEVNULL, capture_output=True, timeout=DOCKER_S)
        except (OSError, subprocess.TimeoutExpired):
            return


def serve(swarm_run: SwarmRun, say: Say) -> int:
    """Serve until the server or the run ends. Returns the server's exit code, as `subprocess` has it; 0 for a server
    that was told to end, whatever it makes of that (`ajet-swarm start` exits with 143).
    """
    swarm, cwd, pause = swarm_run.swarm, swarm_run.spec.cwd, 1.0
    with listening_to_signals() as relay:
        if not swarm.ssh:
            server = shell(swarm.named_container(swarm_run.session), cwd, os.environ)
            return _watched(swarm_run, server, relay, say)
        while True:
            words = forward_words(swarm, port_of(swarm_run.url()))
            began = time.monotonic()
            say(f"$ {shlex.join(words)}")
            code = _watched(swarm_run, Child(words, cwd, os.environ), relay, say)
            if relay.number or not is_locked(swarm_run.rundir.lock):
                return code
            pause = 1.0 if time.monotonic() - began >= STEADY_S else min(2 * pause, LONGEST_S)
            say(f"the forward ended ({code}); again in {pause:.0f} s")
            _within(pause, lambda: relay.number != 0)


def forward_words(swarm: Swarm, port: int) -> list[str]:
    """The ssh command that forwards the server's port: it never prompts, and ends when the link is dead."""
    options = ("ExitOnForwardFailure=yes", "ServerAliveInterval=15", "ServerAliveCountMax=3", "BatchMode=yes")
    words = [word for option in options for word in ("-o", option)]
    return ["ssh", "-N", *words, "-L", f"127.0.0.1:{port}:{swarm.remote_address}", *shlex.split(swarm.ssh)]


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
            _end_container(swarm_run)
            child.end(signalled=relay.number != 0)
    finally:
        relay.children.clear()
        child.close()
    return 0 if ended_by_us else child.returncode or 0
