"""A place of the tests: real Runners as detached local processes, run directories, and looks at them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.limits import Limits
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.refresh import Refresher
from autoresearch.records import events, order_file, recorded_run
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.exit_record import read as read_exit
from autoresearch.records.hostile import write_atomically
from autoresearch.records.index import Index, IndexEntry
from autoresearch.records.order_file import Order
from autoresearch.records.rundir import RunDir
from tests.specs import run_spec
from tests.waiting import PATIENCE_S


def no_tmux(_: str) -> Any:
    raise EnvironmentUnusable("these tests start no sessions")


@dataclass
class Ground:
    """One place, and the runs that are ordered there."""

    root: Path
    jobs: Any  # tests.far.jobs.LocalJobs
    index: Index
    options: dict[str, Any] = field(default_factory=dict)
    ahead_s: float = 0.0
    rundirs: list[RunDir] = field(default_factory=list)

    @property
    def place(self) -> Target:
        return Target("yard", Kind.SLURM, 4, self.options)

    def order(self, command: str = "echo hello; exit 0", **changes: Any) -> RunDir:
        """A run as `Prepared.go` leaves it: spec, environment, order, an entry in the index."""
        run = f"run{len(self.rundirs)}-{uuid.uuid4().hex[:6]}"  # what is killed is ours alone
        rundir = RunDir(self.root / "runs" / run)
        rundir.path.mkdir(parents=True)
        result_dir = self.root / "results" / run
        result_dir.mkdir(parents=True)
        starts = self.root / "starts"
        limits = Limits(first_step_s=300, max_s=changes.pop("max_s", 300), grace_s=changes.pop("grace_s", 5))
        spec = run_spec(
            run,
            rundir.path,
            slug="run",
            command=f"echo {run} >> {starts}\n{command}",
            interpreter=sys.executable,
            limits=limits,
            created=time.time(),
            launcher="slurm",
            **changes,
        )
        recorded_run.write(rundir, spec, {"journal": str(result_dir / "experiment_log.md"), "collector": []})
        self.index.add(IndexEntry(run, "run", spec.session, str(rundir.path), str(result_dir), created=spec.created))
        environment = b"\0".join(f"{k}={v}".encode() for k, v in os.environ.items())
        write_atomically(rundir.environment, environment, mode=0o600, durable=False)
        rundir.log.touch()
        order_file.write(rundir, Order(run, self.place, time.time()))
        self.rundirs.append(rundir)
        return rundir

    def look(self, times: int = 1) -> bool:
        """Looks, each as by another process; whether the last one had news."""
        news = False
        for _ in range(times):
            news = Refresher(self.parts()).look(self.rundirs, within_s=0.0)
        return news

    def parts(self) -> Parts:
        """What a command that looks is given."""
        return Parts(os.environ, self.index, no_tmux, self.wall, lambda *_: self.jobs)

    def wall(self) -> float:
        """The wall clock of who looks, which a test puts forward."""
        return time.time() + self.ahead_s

    def until(self, true: Callable[[], Any]) -> Any:
        """Look until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := true()):
            assert time.monotonic() < deadline, f"it never became true: {true}"
            self.look()
            time.sleep(0.02)
        return found

    def killed_at(self, name: str) -> None:
        """Looks in a process of its own, which is killed there."""
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                os.environ["AUTORESEARCH_FAILPOINT"] = f"{name}:kill"
                self.until(lambda: False)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (name, status)

    def ended(self, rundir: RunDir) -> ExitRecord:
        """Its exit record, waited for."""
        self.until(rundir.exit_record.exists)
        record = read_exit(rundir)
        assert record is not None
        return record

    def starts(self, rundir: RunDir) -> int:
        """How often its trainer was started."""
        path = self.root / "starts"
        return path.read_text().split().count(rundir.path.name) if path.exists() else 0

    def names(self, rundir: RunDir) -> list[str]:
        """Its events."""
        return [event.event for event in events.read(rundir.events)[0]]

    def silence(self, reason: str = "", half: str = "") -> None:
        """Nobody answers."""
        (self.root / "launcher" / ("silent" + half)).write_text(reason)

    def answers(self) -> None:
        """Somebody answers again."""
        for path in (self.root / "launcher").glob("silent*"):
            path.unlink()

    def hold(self, reason: str = "Resources") -> None:
        """Jobs wait."""
        (self.root / "launcher/held").write_text(reason)

    def release(self) -> None:
        """They wait no more."""
        (self.root / "launcher/held").unlink()

    def far(self, rundir: RunDir) -> dict[str, Any]:
        """The far exit record."""
        path = rundir.far / "exit.json"
        return dict(json.loads(path.read_bytes())) if path.exists() else {}


@pytest.fixture
def ground(tmp_path: Path, local_jobs: Any, reaper: Any) -> Iterator[Ground]:
    made = Ground(tmp_path, local_jobs, Index(tmp_path / "state"))
    yield made
    for record in local_jobs.records():
        local_jobs.kill(record["native"])
