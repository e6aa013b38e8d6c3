"""Runs the collector command of each finished run when no watching process has collected it in time."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from autoresearch.core.run.job_launcher import Handle
from autoresearch.records.rundir import RunDir, read_json, write_json

PATIENCE_S = 3.0  # seconds; a controller, a `run` or a `wait` is awake and collects within milliseconds
NICE = "10"  # the watching process may be starting the next run


class Collectors:
    """Runs that wait to be collected, and the running collector processes."""

    def __init__(self, environ: Mapping[str, str], clock: Callable[[], float]) -> None:
        self.environ = {name: value for name, value in environ.items() if name != "AUTORESEARCH_RUN_ID"}
        self.clock = clock
        self._waiting: list[tuple[float, RunDir]] = []
        self._working: list[subprocess.Popen[bytes]] = []

    @property
    def busy(self) -> bool:
        """Whether runs wait or collectors still work."""
        return bool(self._waiting or self._working)

    def later(self, rundir: RunDir) -> None:
        """Schedule the collection of a run that is over, PATIENCE_S from now."""
        self._waiting.append((self.clock() + PATIENCE_S, rundir))

    def tend(self) -> None:
        """Start the collectors that are due and drop the finished ones."""
        self._working = [each for each in self._working if each.poll() is None]
        now = self.clock()
        due = [rundir for at, rundir in self._waiting if at <= now]
        self._waiting = [(at, rundir) for at, rundir in self._waiting if at > now]
        for rundir in due:
            words = (read_json(rundir.spec) or {}).get("collector") or []
            if words and not rundir.collected.exists():
                with contextlib.suppress(OSError):
                    self._start([str(word) for word in words], rundir.path / "collect.log")

    def _start(self, words: list[str], path: Path) -> None:
        """Start it detached: it may write for a long time, so nobody waits for it."""
        with path.open("ab") as log:
            self._working.append(
                subprocess.Popen(
                    ["nice", "-n", NICE, *words],
                    env=self.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )


@dataclass(frozen=True, slots=True)
class Submission:
    """A job and its run directory."""

    handle: Handle
    rundir: RunDir

    @property
    def over(self) -> bool:
        """Whether its run is recorded, or its run directory is gone."""
        try:
            return self.rundir.removed or self.rundir.exit_record.exists()
        except OSError:  # it cannot be read now
            return False


class Submissions:
    """The records, one file per job, in the Follower's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "jobs"

    def note(self, handle: Handle, rundir: RunDir) -> None:
        """Record a job. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / handle.run, {"handle": asdict(handle), "run_dir": str(rundir.path)}, durable=False)

    def over(self) -> Iterator[Submission]:
        """Jobs that may be forgotten; damaged records are deleted."""
        for path in sorted(self.folder.glob("[!.]*")) if self.folder.is_dir() else ():
            record = read_json(path)
            try:
                noted = Submission(Handle(**record["handle"]), RunDir(Path(record["run_dir"]))) if record else None
            except (KeyError, TypeError):
                noted = None
            if noted is None:
                path.unlink(missing_ok=True)
            elif noted.over:
                yield noted

    def drop(self, run: str) -> None:
        """Delete the record of a forgotten job."""
        (self.folder / run).unlink(missing_ok=True)
