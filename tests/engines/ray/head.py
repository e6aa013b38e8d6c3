"""A Ray head of the tests' own, started without anything but its environment, and ended by pid."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.engines.ports import free_ports
from tests.reaper import homes, new_mark
from tests.waiting import PATIENCE_S

REPO = Path(__file__).parents[3]
RAY = REPO / ".venv-ray"
PLAIN = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
PORTS = ("port", "ray-client-server-port", "dashboard-port", "dashboard-agent-listen-port")
PORTS += ("dashboard-agent-grpc-port", "metrics-export-port")


def missing() -> str:
    """Why there can be no Ray here, in one sentence; "" where there can."""
    return "" if (RAY / ".installed").exists() else "Ray is not installed: `make ray` says why not"


@dataclass
class Head:
    """One head; `start` again after `end` has it at the same ports, and it knows of nothing."""

    environ: Mapping[str, str] = field(default_factory=lambda: PLAIN)
    gpus: int = 0
    more: tuple[str, ...] = ()
    ports: dict[str, int] = field(default_factory=dict)
    home: str = ""
    mark: str = ""

    @property
    def address(self) -> str:
        """Of its dashboard."""
        return f"http://127.0.0.1:{self.ports['dashboard-port']}"

    def start(self, tries: int = 3) -> None:
        """Start it and wait until it takes jobs. On a busy machine a raylet may give up on its own agent."""
        given = self.ports
        for left in reversed(range(tries)):
            self.ports = given or dict(zip(PORTS, free_ports(len(PORTS)), strict=True))  # others may take one meanwhile
            self.home, self.mark = tempfile.mkdtemp(prefix="", dir=homes()), new_mark()  # short: a socket's path is
            said = Path(f"{self.home}/said")
            with said.open("wb") as out:  # no pipe: the daemons would hold it open
                done = subprocess.run(
                    [RAY / "bin" / "python", RAY / "bin" / "ray", *self._words()],
                    env={
                        "PATH": os.environ["PATH"],
                        "HOME": self.home,
                        "LANG": "C.UTF-8",
                        "AUTORESEARCH_TEST": self.mark,
                        **self.environ,
                    },
                    cwd=self.home,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                )
            if done.returncode == 0:
                return
            words = said.read_text()
            self.end()
            assert left, words

    def _words(self) -> list[str]:
        given = [f"--{name}={port}" for name, port in self.ports.items()]
        return [
            *("start", "--head", "--node-ip-address=127.0.0.1", "--num-cpus=8", f"--num-gpus={self.gpus}"),
            *("--disable-usage-stats", "--object-store-memory=100000000", "--dashboard-host=127.0.0.1"),
            *(*given, f"--temp-dir={self.home}/r", *self.more),
        ]

    def takes_jobs(self) -> None:
        """Wait until a job is taken: for a while a new head answers 500, `No available agent to submit job`."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.ask("/api/jobs/", {"entrypoint": "true"})
                return
            except OSError as error:
                assert time.monotonic() < deadline, error
                time.sleep(0.5)

    def ask(self, path: str, body: object = None) -> Any:
        """One request, as JSON; POST where there is a body. Raises OSError."""
        token = self.environ.get("RAY_AUTH_TOKEN")
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.address + path, data, headers), timeout=60) as said:
                return json.load(said)
        except urllib.error.HTTPError as error:
            error.close()
            raise

    def jobs(self) -> dict[str, str]:
        """The jobs that it knows by a name, and how they are."""
        return {job["submission_id"]: job["status"] for job in self.ask("/api/jobs/") if job.get("submission_id")}

    def actors(self) -> dict[str, str]:
        """Its actors by name, and how they are."""
        found = self.ask("/api/v0/actors?detail=1&limit=1000")["data"]["result"]["result"]
        return {actor["name"]: actor["state"] for actor in found}

    def processes(self) -> list[int]:
        """Every process that carries its mark, zombies not."""
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if self._carries(pid)]

    def _carries(self, pid: int) -> bool:
        try:
            return self.mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    def end(self) -> None:
        """End every process of it, until none is left."""
        if not self.mark:
            return
        deadline = time.monotonic() + 60
        while left := self.processes():
            assert time.monotonic() < deadline, f"cannot be ended: {left}"
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        shutil.rmtree(self.home, ignore_errors=True)
