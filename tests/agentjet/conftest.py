"""A swarm run without tmux: its run directory, the fake server as a process, and what our programs said."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from autoresearch.agentjet.server import SwarmRun, listening
from autoresearch.core.run.hooks import HostServices
from autoresearch.core.run.limits import Limits
from autoresearch.core.run.swarm import Swarm
from autoresearch.records.rundir import RunDir
from tests.engines.ports import free_port
from tests.specs import run_spec

SAMPLES = Path(__file__).parents[1] / "samples" / "swarm"


@dataclass
class Stand:
    """One run in a temporary directory, whose server is somebody else's unless the notes say otherwise."""

    root: Path
    eventually: Callable[[Callable[[], object]], None]
    said: list[str] = field(default_factory=list)
    servers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def log(self) -> str:
        return "\n".join(self.said)

    @property
    def services(self) -> HostServices:
        def no_session(*_: object) -> dict[str, object]:
            raise AssertionError("no session is wanted here")

        return HostServices({}, str(self.root / "state"), no_session, lambda cwd, commit: commit)

    def swarm_run(self, command: str = "true", debug: str = "", **more: object) -> SwarmRun:
        """The run, with an engine that is polled often."""
        rundir = RunDir(self.root / "run")
        rundir.path.mkdir(exist_ok=True)
        given = Swarm(debug=f"{sys.executable} {debug}" if debug else "", poll_s=0.05)
        swarm = replace(given, **more)  # type: ignore[arg-type]
        spec = run_spec(
            "try-aaaaaa",
            rundir.path,
            trainer="agentjet_swarm",
            cwd=str(self.root),
            interpreter=sys.executable,
            result_dir=str(self.root),
            command=f"{sys.executable} {command}" if command != "true" else command,
            limits=Limits(grace_s=1.0),
            swarm=swarm,
        )
        return SwarmRun(rundir, spec, swarm)

    def serve(self, given: SwarmRun, *words: str) -> int:
        """Start the fake server, with its log where that of a server of ours is; its port, once it is healthy."""
        given.server_dir.path.mkdir(exist_ok=True)
        port = free_port()
        with given.server_dir.log.open("ab") as log:
            argv = [sys.executable, str(SAMPLES / "fake_swarm_server.py"), f"--swarm-port={port}", *words]
            self.servers[port] = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        given.record(url=f"http://127.0.0.1:{port}")
        self.eventually(lambda: listening(port))
        return port

    def end(self) -> None:
        """End the servers, by their pids; the process that serves notices it a moment later."""
        for port, server in self.servers.items():
            server.send_signal(signal.SIGKILL)
            server.wait()
            self.eventually(lambda port=port: not listening(port))  # type: ignore[misc]


@pytest.fixture
def stand(
    tmp_path: Path, eventually: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stand]:
    for path in SAMPLES.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.setenv("AUTORESEARCH_RESULT_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    monkeypatch.delenv("AJET_SWARM_URL", raising=False)
    one = Stand(tmp_path, eventually)
    yield one
    one.end()
