"""The exit record of a run, written by the Runner, or by the CLI for a Runner that died without one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.json_record import from_record
from autoresearch.records.files import read_json, write_json
from autoresearch.records.rundir import RunDir


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How a run ended. Exit code and reason are independent; None means unknown."""

    run: str
    ending: Ending
    reason: str
    returncode: int | None = None  # 128 + n for signal n
    signal: int | None = None
    cause: str = ""  # a stable identifier that details the ending, e.g. "lease_busy"
    first_step_s: float | None = None
    first_step: int | None = None
    kl: float | None = None
    last_step: int | None = None
    steps_seen: int = 0
    error_kind: str = ""
    error: str = ""  # its line
    duration_s: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    peak_memory_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    gpu_memory_returned: bool | None = None
    gpu_used: bool | None = None  # False: the memory of its GPUs never changed while it trained; None: not seen
    gpu_count: int = 0  # GPUs that it was leased for itself
    term_sent: int = 0
    kill_sent: int = 0
    left: tuple[int, ...] = ()
    cleanup: tuple[dict[str, Any], ...] = ()
    log_bytes_at_stop: int | None = None  # size of the log when autoresearch decided to end the run
    job: str = ""  # for a remote run: the launcher's job id
    node: str = ""  # for a remote run: where it ran
    queue_s: float | None = None  # for a remote run: time in the queue, which is not part of the run's time
    evaluation: dict[str, Any] | None = None  # returncode, seconds, reason ("": succeeded); None: there was none

    @property
    def memory_gb(self) -> float | None:
        """The peak of its GPUs, if it used any that were its own, else of its processes, in 10**9 bytes."""
        memory = self.gpu_memory_bytes or self.peak_memory_bytes
        return round(memory / 1e9, 3) if memory else None

    @property
    def idle_gpus(self) -> str:
        """That its GPUs were not used, in a clause; "" if they were, or if that cannot be known."""
        if self.gpu_used is not False:
            return ""
        return f"no GPU was used, though {self.gpu_count} {'was' if self.gpu_count == 1 else 'were'} leased"


def read(rundir: RunDir) -> ExitRecord | None:
    """The exit record of a run; None if there is none (yet)."""
    data = read_json(rundir.exit_record)
    if data is None:
        return None
    return from_record(ExitRecord, {"run": "", "reason": "", **{k: v for k, v in data.items() if v is not None}})


def recover(rundir: RunDir, run: str) -> bool:
    """Rename a complete exit.rec to exit.json; returns whether there was one. The caller holds the Runner's lock.

    The Runner fills the reserved `exit.rec` and then renames it. A kill in between, or a disk that has become
    read-only, prevents only the rename: the record is complete, or it is not JSON at all.
    """
    reserved = rundir.path / "exit.rec"
    data = read_json(reserved)
    if data is None or data.get("run") != run or "ending" not in data:
        return False
    reserved.replace(rundir.exit_record)
    return True


def write(rundir: RunDir, record: ExitRecord) -> None:
    """Write the exit record in place of a dead Runner; the caller holds the Runner's lock."""
    write_json(rundir.exit_record, {"schema": 1, **asdict(record)})
