"""Failure: why a run ended badly, as far as its own output and the way it ended show; its family says what one does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autoresearch.core.diagnosis.log_lines import TracebackFrame
from autoresearch.core.run.ending import Ending

_FROM_OUTSIDE = frozenset({1, 9, 15})  # HUP, KILL, TERM: the signals sent by commands that kill by name
_OURS = (Ending.FIRST_STEP_TIMEOUT, Ending.STALLED, Ending.MAX_TIME, Ending.LAUNCH_FAILED, Ending.FINISHED)
MAX_LINE = 300  # characters of the proving line that are kept


class FailureFamily(StrEnum):
    """What one does about a failure; its value is written into the ledger."""

    GPU_MEMORY = "gpu_memory"
    HOST_MEMORY = "host_memory"
    DISK = "disk"
    MACHINE = "machine"  # a node, a GPU or a port that is broken, gone or held by others; the scheduler's doing
    NETWORK = "network"
    ACCESS = "access"  # keys, tokens, rights
    ENVIRONMENT = "environment"  # what is installed: missing, or two packages, a driver or an ABI that do not fit
    CONFIGURATION = "configuration"  # values that were given: unknown, missing, or sizes that do not fit
    DATA = "data"
    CODE = "code"  # of the user
    COMMUNICATION = "communication"  # processes lost each other; what died first is not known
    DIVERGED = "diverged"
    HANG = "hang"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    # what the run's records show, and no line of its log
    NOT_SHOWN = "not_shown"  # a path of the checkout that its worktree does not show, or not for writing
    EVALUATION_FAILED = "evaluation_failed"
    METRIC_UNREAD = "metric_unread"
    NO_STEP = "no_step"
    ENDED_EARLY = "ended_early"
    LEFT_TRAINING = "left_training"
    CONSTRAINT_BROKEN = "constraint_broken"
    CONSTRAINT_UNREAD = "constraint_unread"

    @classmethod
    def words(cls) -> frozenset[str]:
        """The families, and the classes of before."""
        return frozenset(cls) | frozenset(word for words in _OLDER.values() for word in words)

    @classmethod
    def _missing_(cls, value: object) -> FailureFamily | None:
        """The family of a class that records of before name."""
        return next((cls(family) for family, words in _OLDER.items() if value in words), None)


_OLDER = {
    "gpu_memory": ("cuda_oom", "kv_cache"),
    "host_memory": ("host_oom",),
    "disk": ("disk_full",),
    "machine": ("gpu_shortage", "gpu_busy", "gpu_fault", "port_taken", "preempted", "slurm_preempted", "ray_pending"),
    "network": ("ray_unreachable",),
    "access": ("auth", "permission"),
    "environment": ("import_error", "command_not_found", "segfault"),
    "configuration": ("config_error", "missing_file"),
    "code": ("cuda_error", "python_error", "retry_storm"),
    "communication": ("nccl_timeout", "nccl_error", "engine_dead", "ray_actor_died"),
    "diverged": ("nan",),
    "hang": ("stall", "rollout_stall"),
    "cancelled": ("slurm_time_limit", "killed_by_autokill"),
    "unknown": ("ray_job_failed",),
}
"""The classes in records of before these families, which were finer."""


class FailurePolicy(StrEnum):
    """What a campaign may do after a failure of a family."""

    RETRY = "retry"  # the machine did it: the same again
    WAIT = "wait"  # something outside is busy or away: the same again, later
    SHRINK_BATCH = "shrink_batch"  # it did not fit: smaller, or on more memory
    STOP = "stop"  # the idea did it: that is its result
    ASK = "ask"  # only a person can mend it


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Position of a line in the log: its number from 1 and its byte offset; 0 and -1 where unknown."""

    number: int = 0
    offset: int = -1


@dataclass(frozen=True, slots=True)
class Failure:
    """A family, and the line that proves it, stripped; those that a reader returns are masked, then cut at MAX_LINE."""

    family: FailureFamily
    line: str
    position: LogPosition = LogPosition()
    times: int = 1  # how often it was printed since the last step
    frame: TracebackFrame | None = None  # of an exception: the last frame in the user's own code, else the last one
    process: str = ""  # which of several processes printed it
    note: str = ""  # what the line proves beyond its family
    certain: bool = True  # of a log's line: whether two independent signs say so, and none says otherwise

    @property
    def exception(self) -> str:
        """The class of the exception, as the line names it; "" where it names none."""
        name = self.line.partition(":")[0].partition("(")[0].strip()
        dotted = all(part.isidentifier() for part in name.split("."))
        return name if self.frame and name and dotted else ""

    @property
    def where(self) -> str:
        """The frame and what its file is, for people; "" without a frame."""
        if self.frame is None:
            return ""
        role = self.frame.role if self.frame.is_own else "an installed package"
        return f"{self.frame} ({role})" if role else str(self.frame)


def killed_from_outside(ending: Ending, cause: str, returncode: int | None) -> bool:
    """Whether a signal from outside autoresearch ended the trainer or its Runner. returncode: 128 + n for signal n."""
    if ending in _OURS:
        return False
    if ending is Ending.STOPPED:
        return cause in ("sigterm", "sigquit")
    return ending is Ending.LOST or (returncode or 0) - 128 in _FROM_OUTSIDE


def with_the_end(failure: Failure | None, ending: Ending, *, killed: bool, kills: str) -> Failure | None:
    """The failure to report, from the root cause found in the log and the way the run ended.

    killed: see `killed_from_outside`. kills: the command or script line of the run that kills processes by name; "" for
    none. A certain cause in the log wins. Otherwise, if the run was killed from outside and it has such a command, that
    command is blamed. A run that was ended as stalled, with no cause in its log, hung. Of a run whose Runner died, what
    only shows that something else failed is a consequence: an engine goes with its Runner.
    """
    if failure is not None and failure.line.startswith("KeyboardInterrupt") and (killed or ending is Ending.STOPPED):
        failure = None  # what an interrupted trainer prints, not a cause
    if failure is not None and ending is Ending.LOST and failure.family is FailureFamily.COMMUNICATION:
        failure = None
    if failure is not None and failure.certain:
        return failure
    if killed and kills:
        return Failure(FailureFamily.CANCELLED, kills, note="a command of its own kills by name")
    if failure is None and ending is Ending.STALLED:
        return Failure(FailureFamily.HANG, "")
    return failure
