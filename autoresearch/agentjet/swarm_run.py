"""The files of a swarm run's server half, and the environment that both halves share.

<run dir>/swarm.json    the server's address, and whether this run owns its engine
<run dir>/gate.log      the output of the one-episode check
<run dir>/server/       the run directory of the server's own Runner: run.log, exit.json, session.json ...
"""

from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.agentjet.engine_status import OFFLINE, EnginePoll, parse_poll
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.swarm import PORT, Swarm
from autoresearch.errors import UsageError
from autoresearch.records import spec_file
from autoresearch.records.rundir import RunDir, read_json, write_json

ANSWER_S = 5.0
STOP_S = 45.0  # /stop_engine ends a tree with 16 s of grace, and blocks the server meanwhile
SUFFIX = "_srv"
_QUIET = {"NO_COLOR": "1", "LOGURU_COLORIZE": "NO", "RAY_COLOR_PREFIX": "0"}


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


def server_session(session: str) -> str:
    """The name of the server's session, beside the client's."""
    return f"{session[: 65 - len(SUFFIX)]}{SUFFIX}"


def read(run_dir: str) -> SwarmRun:
    """Read a run's spec. Raises UsageError for one that is not in swarm mode."""
    rundir = RunDir(Path(run_dir))
    spec = spec_file.read(rundir)
    if spec.swarm is None:
        raise UsageError(f"{rundir.path.name} is no run of swarm mode", hint="its blueprint has no `swarm_` notes")
    return SwarmRun(rundir, spec, spec.swarm)


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


def no_colours(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that disable colours in the server's log, unless they are set already."""
    return {name: value for name, value in _QUIET.items() if name not in environ}


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

    def stop(self, *, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic) -> str:
        """POST /stop_engine and wait until the engine is offline; "" on success, else the obstacle."""
        until = clock() + STOP_S
        _, trouble = self._ask("/stop_engine", {}, STOP_S)
        while (poll := self.poll()).status != OFFLINE:
            if clock() >= until:
                return trouble or poll.trouble or f"the engine is still {poll.status} after {STOP_S:.0f} s"
            sleep(0.2)
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
