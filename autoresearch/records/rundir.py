"""The run directory: all its files, and the state that they show."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.run.spec import RunState
from autoresearch.records.files import read_json
from autoresearch.runner.basics import is_locked

STARTING_S = 20.0  # a Runner that has not taken its lock after this long has failed to start


@dataclass(frozen=True, slots=True)
class FileIn:
    """The path of a file in a directory that a class stands for by its `path`."""

    name: str

    def __get__(self, directory: Any, kind: type) -> Path:
        """Its path there."""
        return Path(directory.path / self.name)


@dataclass(frozen=True, slots=True)
class RunDir:
    """The directory of one run, with the path of every file in it."""

    path: Path

    # The run's settings; complete before anything is started. The Runner executes it, so it is the only file with
    # unmasked commands: mode 0600, and masked once the run is collected.
    spec = FileIn("spec.json")
    launching = FileIn("launching")  # held by flock by the CLI while it launches this run
    # The trainer's environment, NUL separated, mode 0600; the Runner reads and removes it.
    environment = FileIn("environment")
    lock = FileIn("lock")  # held by flock by the Runner while it lives; its mtime is the heartbeat
    # The Runner's identity: pid, start time, boot id, host, the trainer's pid.
    runner = FileIn("runner.json")
    session = FileIn("session.json")  # where it was started: launcher, session, socket, attach command
    log = FileIn("run.log")  # stdout and stderr of prepare commands, trainer and cleanup commands, as printed
    # stdout and stderr of the evaluation; created anew when it begins, after the trainer's end.
    evaluation = FileIn("evaluation.log")
    events = FileIn("events.jsonl")  # one object per line, appended by the Runner and by interventions
    stop = FileIn("stop")  # a stop request: {"reason": ...}
    screened = FileIn("screened.json")  # that its campaign held it against the baseline early on, and what it found
    exit_record = FileIn("exit.json")  # written last by the Runner, by renaming the reserved exit.rec
    # The collector's results; its presence means that ledger row and finish flag are written.
    collected = FileIn("collected.json")
    collect_lock = FileIn("collect.lock")  # held by flock while collecting
    outputs = FileIn("outputs")  # what is kept of its outputs
    outputs_record = FileIn("outputs.json")
    order = FileIn("order.json")  # of a remote run: its target, and the launcher's handle (records/order_file.py)
    observed = FileIn("observed.json")  # of a remote run: what was seen of it last
    looked = FileIn("looked")  # of a remote run: held by flock by who looks at it; its mtime: when that was last done
    watched = FileIn("watched")  # of a remote run: held by flock by its session, which looks at it until it is over
    far = FileIn("far")  # of a remote run: its remote directory, if the target shares the file system

    @property
    def removed(self) -> bool:
        """Whether the run directory, or its campaign's, was removed, so that the run is no longer wanted.

        False if the directory of all campaigns is missing, too: it may come back (not mounted, or a moved project).
        """
        return self.path.parents[1].exists() and not self.spec.exists()

    def state(self, *, now: float | None = None) -> RunState:
        """The state according to the files; a lock shows if a local Runner lives, the last look a remote one."""
        if self.exit_record.exists():
            return RunState.ENDED
        if self.order.exists():
            return self._observed_state()
        if is_locked(self.lock):
            if self.stop.exists():
                return RunState.STOPPING
            return RunState.EVALUATING if self.evaluation.exists() else RunState.RUNNING
        if is_locked(self.launching):
            return RunState.STARTING
        age = (time.time() if now is None else now) - self._born()
        starting = not self.runner.exists() and age < STARTING_S
        if self.exit_record.exists():  # written, and the lock released, since the first check
            return RunState.ENDED
        return RunState.STARTING if starting else RunState.DEAD

    def _observed_state(self) -> RunState:
        """The state of a remote run; it has ended only once its exit record is present locally."""
        seen = read_json(self.observed) or {}
        try:
            state = RunState(seen.get("state", RunState.STARTING))
        except ValueError:  # written by a newer version
            state = RunState.RUNNING
        return RunState.STOPPING if self.stop.exists() and state.lives and state is not RunState.UNREACHABLE else state

    def _born(self) -> float:
        try:
            return self.spec.stat().st_mtime
        except OSError:
            return 0.0
