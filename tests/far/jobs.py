"""A small real JobLauncher: its jobs are detached processes of this machine, its queue is a directory.

    jobs/N.json    one job: its run, name, argv; and where it stands
    jobs/N.pid     written by the job itself as it starts
    jobs/N.out     what it printed
    jobs/N.says    fields of an Observation that is to be given once it is over
    held           while it exists, jobs stay pending; its text is the reason
    silent         while it exists, nobody answers (`silent.jobs`, `silent.files`: only half of it)
    declines       while it exists, every submit is declined; its text is the reason
    calls          one line for each call: what it was, and how many were asked about

Like a scheduler it starts whatever it is told to, twice if told twice: being idempotent is `again`'s business.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import (
    Declined,
    DirectoryState,
    Handle,
    Job,
    JobState,
    Observation,
    ProgramOutput,
    Unreachable,
    Want,
)
from autoresearch.core.run.targets import Kind
from autoresearch.launchers.shared import SharedFiles

START = 'echo $$ >"$0" && exec "$@"'


class Files(SharedFiles):
    """The files of this machine, which may be out of reach."""

    def __init__(self, jobs: LocalJobs) -> None:
        super().__init__(None)
        self.jobs = jobs
        self.ahead_s = 0.0

    def look(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        self.jobs.call("look", len(wants), "files")
        return {run: replace(seen, ahead_s=self.ahead_s) for run, seen in super().look(wants).items()}

    def put(self, directory: str, files: Mapping[str, bytes], *, private: Any = ()) -> None:
        self.jobs.call("put", len(files), "files")
        super().put(directory, files, private=private)

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, cwd: str = "") -> ProgramOutput:
        self.jobs.call("run", 1, "files")
        return super().run(argv, stdin=stdin, timeout_s=timeout_s, cwd=cwd)


class LocalJobs:
    """`core.run.job_launcher.JobLauncher` for the tests."""

    kind = Kind.SLURM  # a kind that there is; nothing of Slurm is used

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "jobs").mkdir(parents=True, exist_ok=True)
        self.reach = Files(self)
        self.environ: Mapping[str, str] = os.environ  # of its Runners
        self.ahead_s = 0.0  # how far the clock of its Runners is ahead

    # -- what a test does to it -----------------------------------------------------------------------------------

    def calls(self, what: str = "") -> list[str]:
        """Every call so far, as `what count`."""
        path = self.directory / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(what)]

    def say(self, native: str, **fields: object) -> None:
        """What it is to say of a job that is over."""
        (self.directory / f"jobs/{native}.says").write_text(json.dumps(fields))

    def purge(self, native: str) -> None:
        """Forget everything about a job, as schedulers do after a while."""
        for path in (self.directory / "jobs").glob(f"{native}.*"):
            path.unlink()

    def records(self) -> list[dict[str, Any]]:
        """Every job that it was ever told to start."""
        paths = sorted((self.directory / "jobs").glob("*.json"), key=lambda path: int(path.stem))
        return [{"native": path.stem, **json.loads(path.read_bytes())} for path in paths]

    def lives(self, native: str) -> bool:
        """Whether the job's own process lives."""
        pid = self._pid(native)
        return pid is not None and _alive(pid)

    def pid(self, native: str) -> int:
        """Of the job's own process, its Runner."""
        found = self._pid(native)
        assert found is not None
        return found

    def kill(self, native: str) -> None:
        """End everything of a job by KILL, as a node does that fails."""
        run = json.loads((self.directory / f"jobs/{native}.json").read_bytes())["run"]
        _kill_carriers(run)

    # -- core.run.job_launcher.JobLauncher -----------------------------------------------------------------------------

    def preflight(self) -> list[Finding]:
        silent = self.directory / "silent"
        if not silent.exists():
            return []
        hint = "runs that are ordered now wait until it answers"
        return [Finding(Severity.WARNING, "unreachable", f"it does not answer: {silent.read_text()}", hint)]

    def submit(self, job: Job) -> Handle:
        self.call("submit", 1, "jobs")
        if (self.directory / "declines").exists():
            raise Declined((self.directory / "declines").read_text() or "it will not", code="refused_here")
        if job.again and (known := [each["native"] for each in self.records() if each["run"] == job.run]):
            return Handle(job.run, known[0])
        native = self._new({"run": job.run, "name": job.name, "argv": job.argv, "cwd": job.cwd, "state": "pending"})
        self._schedule(dict(job.environment))
        return Handle(job.run, native)

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        self.call("poll", len(handles), "jobs")
        self._schedule({})
        return {handle.run: seen for handle in handles if (seen := self._observe(handle.native))}

    def stop(self, handle: Handle, *, hard: bool) -> None:
        self.call("stop " + ("hard" if hard else "soft"), 1, "jobs")
        path = self.directory / f"jobs/{handle.native}.json"
        if not path.exists():
            return
        with self._alone():
            record = json.loads(path.read_bytes())
            if record["state"] == "pending":
                _write(path, {**record, "state": "cancelled"})
                return
        if hard:
            _kill_carriers(record["run"])
        elif self.lives(handle.native):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid(handle.native), signal.SIGTERM)

    def forget(self, handle: Handle) -> None:
        self.call("forget", 1, "jobs")

    # -- inside ---------------------------------------------------------------------------------------------------

    def call(self, what: str, count: int, half: str) -> None:
        """Note a call, or fail as whoever does not answer."""
        for name in ("silent", f"silent.{half}"):
            with contextlib.suppress(FileNotFoundError):
                reason = (self.directory / name).read_text() or "nobody answers"
                raise Unreachable(reason, code="no_answer", hint="wait for it")
        with (self.directory / "calls").open("a") as file:
            file.write(f"{what} {count}\n")

    def _new(self, record: dict[str, Any]) -> str:
        number = 1 + len(self.records())
        whole = self.directory / f"new.{os.getpid()}.{threading.get_ident()}"
        whole.write_text(json.dumps(record))
        while True:
            try:
                (self.directory / f"jobs/{number}.json").hardlink_to(whole)  # others read it while it is made
            except FileExistsError:
                number += 1
            else:
                whole.unlink()
                return str(number)

    def _schedule(self, environment: dict[str, str]) -> None:
        if (self.directory / "held").exists():
            return
        with self._alone():
            for record in self.records():
                if record["state"] == "pending":
                    native = record.pop("native")
                    _write(self.directory / f"jobs/{native}.json", {**record, "state": "started"})
                    self._start(native, record, environment)

    def _start(self, native: str, record: Mapping[str, Any], environment: dict[str, str]) -> None:
        place = self.directory / "jobs"
        environ = {**self.environ, "AUTORESEARCH_RUN_ID": record["run"], **environment}
        environ.pop("AUTORESEARCH_FAILPOINT", None)
        with (place / f"{native}.out").open("ab") as out:
            argv = _ahead(record["argv"], self.ahead_s) if self.ahead_s else record["argv"]
            words = ["setsid", "--fork", "sh", "-c", START, str(place / f"{native}.pid"), *argv]
            done = subprocess.run(
                words, cwd=record["cwd"], env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
            )
        assert done.returncode == 0, words
        until = time.monotonic() + 60.0
        while self._pid(native) is None:
            assert time.monotonic() < until, "the job never wrote its pid"
            time.sleep(0.005)

    def _observe(self, native: str) -> Observation | None:
        path = self.directory / f"jobs/{native}.json"
        if not path.exists():
            return None
        state = json.loads(path.read_bytes())["state"]
        if state == "pending":
            reason = "Priority"
            with contextlib.suppress(FileNotFoundError):
                reason = (self.directory / "held").read_text()
            return Observation(JobState.PENDING, "WAITING", reason)
        if state == "cancelled":
            return Observation(JobState.OVER, "CANCELLED", "it was cancelled", Ending.STOPPED, "cancelled")
        if self.lives(native):
            return Observation(JobState.RUNNING, "RUNNING", node="here")
        said = self.directory / f"jobs/{native}.says"
        fields = json.loads(said.read_bytes()) if said.exists() else {}
        if fields.get("ending"):
            fields["ending"] = Ending(fields["ending"])
        return Observation(**{"state": JobState.OVER, "word": "EXITED", "node": "here", **fields})

    def _pid(self, native: str) -> int | None:
        path = self.directory / f"jobs/{native}.pid"
        text = path.read_text() if path.exists() else ""
        return int(text) if text.endswith("\n") else None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.directory / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _ahead(argv: Sequence[str], seconds: float) -> list[str]:
    """The same Runner, with a wall clock of its own."""
    runner, rest = argv[-2], argv[-1:]
    code = (
        f"import importlib, sys, time; real = time.time; time.time = lambda: real() + {seconds}\n"
        f"sys.path.append({os.path.dirname(runner)!r})\n"
        f"sys.exit(importlib.import_module({os.path.basename(runner) + '.runner'!r}).main(sys.argv[1:]))"
    )
    return [*argv[:-2], "-c", code, *rest]


def _write(path: Path, record: dict[str, Any]) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(record))
    temporary.rename(path)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _kill_carriers(run: str) -> None:
    """End, by pid, every process of a run; those of a tmux server and its panes are none."""
    mark = f"AUTORESEARCH_RUN_ID={run}".encode()
    until = time.monotonic() + 60.0
    while found := [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _carries(pid, mark)]:
        assert time.monotonic() < until, f"cannot be ended: {found}"
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _carries(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") and _alive(pid)
    except OSError:
        return False
