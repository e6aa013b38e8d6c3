"""Remote runs: the interface of launchers other than tmux, and its data types.

A remote run has two directories. The *remote directory*, which its Runner writes to, is authoritative. The local run
directory mirrors it, so that `status`, `wait`, campaigns and the collector need not know where a run is. Copying,
submitting, polling and stopping are done by whoever looks at a run (`lab.remote.refresh`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.run.ending import Ending
from autoresearch.core.run.targets import Declined as Declined
from autoresearch.core.run.targets import Unreachable as Unreachable


class JobState(StrEnum):
    """State of a job as its launcher reports it."""

    PENDING = "pending"  # in the launcher's queue; the run's clocks are stopped
    RUNNING = "running"
    OVER = "over"  # the launcher reports that it ended; the exit record tells how
    UNKNOWN = "unknown"  # the job does not exist (any more) for the launcher: the remote directory decides


@dataclass(frozen=True, slots=True)
class Job:
    """One run as it is submitted. All paths are remote paths."""

    run: str  # run ID; identifies the job whatever ID the launcher gives it
    name: str  # `ajet_...`, the session's name
    campaign: str
    directory: str  # the remote run directory, which the Runner writes to
    argv: tuple[str, ...]  # starts the Runner, from any directory
    cwd: str
    max_s: float  # the longest time that the Runner may take: limits, evaluation, grace, cleanup
    grace_s: float
    gpus: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)  # for the Runner; the trainer's is in a file
    again: bool = False  # an earlier submit may have succeeded: look for its job first


@dataclass(frozen=True, slots=True)
class Handle:
    """The launcher's handle of a job."""

    run: str
    native: str  # job id, submission id, pid, manifest name
    more: Mapping[str, Any] = field(default_factory=dict)  # other data that the launcher needs to find it; JSON


@dataclass(frozen=True, slots=True)
class Observation:
    """A launcher's report on one job."""

    state: JobState
    word: str = ""  # the launcher's own name for the state: PENDING, NODE_FAIL, FAILED
    reason: str = ""  # why it is pending, or why it ended; one clause
    ending: Ending | None = None  # what OVER means for a run that left no exit record; None: lost
    cause: str = ""  # the cause for the exit record in that case: walltime, preempted, node_failed, cancelled ...
    returncode: int | None = None
    outranks: bool = False  # ending and cause override the exit record (preempted: the Runner saw a TERM)
    # It would stay pending for ever: if that lasts, the pending limit is not waited for. None: as it was.
    hopeless: bool | None = False
    node: str = ""  # where it runs


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The output of a remote program. `out` and `err` may be cut at 1 MiB."""

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
    """A request for the state of one remote directory."""

    run: str
    directory: str
    offsets: Mapping[str, int] = field(default_factory=dict)  # file name -> bytes already fetched


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """The current state of one remote directory."""

    there: bool = True  # the directory exists
    claimed: bool = False  # a Runner was started in it, whether or not it still lives
    alive: bool | None = None  # its Runner holds its lock; None if locks are unreliable (network file system)
    beat: float | None = None  # mtime of the lock by the remote clock; the Runner's heartbeat
    ahead_s: float = 0.0  # the remote clock minus ours
    runner: Mapping[str, Any] = field(default_factory=dict)  # runner.json
    exit: Mapping[str, Any] = field(default_factory=dict)  # exit.json
    evaluating: bool = False
    grown: Mapping[str, bytes] = field(default_factory=dict)  # file name -> content from the offset on, of limited size
    more: bool = False  # some file has further content beyond what was fetched


class Reach(Protocol):
    """Access to files and programs of a target. Every call may raise Unreachable, and returns in bounded time."""

    @property
    def shared(self) -> bool:
        """Whether the remote host sees the local paths (shared file system), so that nothing is copied."""

    def look(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        """The state of all these remote directories in one round trip, by run."""

    def put(self, directory: str, files: Mapping[str, bytes], *, private: Collection[str] = ()) -> None:
        """Write files into a directory (created if necessary), each atomically; those in `private` with mode 0600."""

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, cwd: str = "") -> ProgramOutput:
        """Run a short program on the remote host, without a shell. A missing program has exit code 127."""

    def call(self, op: str, *, within_s: float = 30.0, **arguments: Any) -> Any:
        """The answer of an operation of `runner.remote_agent`. Raises OSError (of the target), too.

        Only asked for where files are not shared.
        """

    def command(self, argv: Sequence[str]) -> list[str]:
        """The words that run a program there from here, with their stdin, stdout and stderr as its own.

        Only asked for where files are not shared.
        """


class JobLauncher(Protocol):
    """Starts Runners through a scheduler or a remote host. Errors: Unreachable, Declined, EnvironmentUnusable.

    One that has more to say of its target than its problems has a method `describe`, too: rows of (name, value).
    """

    @property
    def kind(self) -> str:
        """The kind of launcher: a `Kind`, or the name of a plug-in."""

    @property
    def reach(self) -> Reach:
        """Access to the target's files and programs."""

    def preflight(self) -> list[Finding]:
        """Problems that would prevent a run on this target; called by `doctor` and before anything is written.

        A tool missing on this host is an error finding whose code names it (`no_sbatch`, `no_kubectl` ...).
        """
        return []

    def submit(self, job: Job) -> Handle:
        """Submit the job. With `job.again`, an existing job of this run is returned instead."""

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """The state of each of these jobs, by run, in one call however many they are."""

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """Cancel the job: gracefully (the Runner gets TERM and its grace), or by force. No error if it has ended."""

    def forget(self, handle: Handle) -> None:
        """Remove what the launcher still keeps of a run that is over; called once. May raise Unreachable."""
