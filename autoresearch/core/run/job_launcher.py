"""Far runs: what a launcher other than tmux is asked, and what it answers. Nouns only.

A far run has two directories. The *far directory* is where its Runner is: the truth. The run directory of this
machine mirrors it, so that `status`, `wait`, campaigns and the collector need not know where a run is. The one who
copies, submits, asks and stops is the Follower (`lab.remote.follower`), one for each place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.run.ending import Ending
from autoresearch.core.run.targets import Kind


class Unreachable(Exception):  # noqa: N818 - it names a state, not an accident
    """Nobody answered, or not in a way that says anything about a run: ask again later, and conclude nothing.

    `code` is a stable word (`no_answer`, `unauthorized`, `host_key_changed` ...), `hint` says what a person may do.
    """

    def __init__(self, reason: str, *, code: str = "no_answer", hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
        self.hint = hint


class Declined(Exception):  # noqa: N818 - as above
    """The place answered that it will not run this, now or later: the run ends as `launch_failed` with this reason."""

    def __init__(self, reason: str, *, code: str = "declined", hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code  # the exit record's cause
        self.hint = hint


class JobState(StrEnum):
    """What a launcher knows about one job."""

    PENDING = "pending"  # it waits in the launcher's queue; its clocks stand still
    RUNNING = "running"
    OVER = "over"  # the launcher says that it ended; the exit record says how
    UNKNOWN = "unknown"  # the launcher knows no such job (any more): the far directory decides


@dataclass(frozen=True, slots=True)
class Job:
    """One run as it is submitted. All paths are the far side's."""

    run: str  # run id; whatever the launcher calls the job, this finds it again
    name: str  # `ajet_...`, the session's name
    campaign: str
    directory: str  # the far directory; its Runner writes there
    argv: tuple[str, ...]  # starts the Runner, from any directory
    cwd: str
    max_s: float  # all that the Runner may take: limits, evaluation, grace, cleanup
    grace_s: float
    gpus: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)  # for the Runner itself; the trainer's is in a file
    attempt: int = 1
    again: bool = False  # an earlier submit may have got through: look for its job first


@dataclass(frozen=True, slots=True)
class Handle:
    """What a launcher calls a job."""

    run: str
    native: str  # job id, submission id, pid, manifest name
    more: Mapping[str, Any] = field(default_factory=dict)  # whatever else its launcher needs to find it; JSON


@dataclass(frozen=True, slots=True)
class Observation:
    """What a launcher said about one job."""

    state: JobState
    word: str = ""  # its own word: PENDING, NODE_FAIL, FAILED
    reason: str = ""  # why it waits, or why it is over; one clause
    ending: Ending | None = None  # what OVER means for a run that left no exit record; None: lost
    cause: str = ""  # the exit record's stable word then: walltime, preempted, node_failed, cancelled ...
    returncode: int | None = None
    outranks: bool = False  # ending and cause hold although there is an exit record (preempted: the Runner saw a TERM)
    hopeless: bool = False  # it would wait for ever: nobody needs to wait for the pending limit
    node: str = ""  # where it runs


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """What a program said. `out` and `err` may be cut at 1 MiB."""

    returncode: int
    out: bytes = b""
    err: bytes = b""

    @property
    def text(self) -> str:
        """stdout as text."""
        return self.out.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The last line of stderr, or of stdout."""
        lines = (self.err or self.out).decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else f"exit code {self.returncode}"


@dataclass(frozen=True, slots=True)
class Want:
    """What is asked about one far directory."""

    run: str
    directory: str
    offsets: Mapping[str, int] = field(default_factory=dict)  # file name -> bytes that we have of it


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """What lies in one far directory now."""

    there: bool = True  # the directory exists
    claimed: bool = False  # a Runner was started in it, whatever became of that
    alive: bool | None = None  # its Runner holds its lock; None where a lock says nothing (a network file system)
    beat: float | None = None  # mtime of the lock, by the far clock: the Runner touches it
    runner: Mapping[str, Any] = field(default_factory=dict)  # runner.json
    exit: Mapping[str, Any] = field(default_factory=dict)  # exit.json
    evaluating: bool = False
    grown: Mapping[str, bytes] = field(default_factory=dict)  # file name -> what follows the offset, a bounded piece
    more: bool = False  # there is more of some file than this piece


class Reach(Protocol):
    """How files and programs of a place are reached. Every call may raise Unreachable, and returns in bounded time."""

    @property
    def shared(self) -> bool:
        """Whether the far side sees our paths: nothing is copied."""

    def look(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        """All of these far directories in one round trip, by run."""

    def put(self, directory: str, files: Mapping[str, bytes], *, private: Collection[str] = ()) -> None:
        """Write files into a directory (made if need be), each atomically; those in `private` with mode 0600."""

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, cwd: str = "") -> ProgramOutput:
        """Run a short program there, no shell in between. A missing program is Said(127)."""

    def clock_offset(self) -> float:
        """Their wall clock minus ours, in seconds."""

    def close(self) -> None:
        """Let go of whatever connection there is; the next call makes it again."""


class JobLauncher(Protocol):
    """A place where a Runner is started by asking somebody else. Errors: Unreachable, Declined, EnvironmentUnusable."""

    @property
    def kind(self) -> Kind:
        """Which launcher it is."""

    @property
    def reach(self) -> Reach:
        """How its files are reached."""

    def preflight(self) -> list[Finding]:
        """What would keep a run from working there; asked by `doctor` and before anything is written.

        A missing tool of this machine is an error finding whose code says which (`no_sbatch`, `no_kubectl` ...).
        """

    def submit(self, job: Job) -> Handle:
        """Have the job's argv started there. With `job.again`, a job of this run that is there already is returned."""

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """What it knows about each of them, by run, in one call however many they are."""

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """End the job: softly (the Runner gets TERM and its grace), or for good. One that is over is no error."""

    def forget(self, handle: Handle) -> str | None:
        """The run is recorded: remove what the launcher still keeps of it. Never an error.

        A sentence says what else of the run was freed there, or could not be; nothing where there was none.
        """


@runtime_checkable
class Describes(Protocol):
    """A launcher that can say more about its place than what is wrong there: for `doctor`, and nothing else."""

    def describe(self) -> Sequence[tuple[str, str]]:
        """(what, how it is): version, partitions and their limits, GPUs, disk, python there. May raise Unreachable."""
