"""RunSpec: everything that was decided about one run before it started."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from autoresearch.core.metrics.constraint import MEMORY, parsed
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.metrics.signal import SignalPattern
from autoresearch.core.run.limits import EVALUATE_S, Limits
from autoresearch.core.run.swarm import Swarm
from autoresearch.core.run.trainer import Source

SUBMODULE_EDITS = "uncommitted changes in a submodule; the commit holds its HEAD"  # in `left_out`: code, not data
DEADLINE = "deadline"  # `timed_by` of a run whose limit is what its campaign's deadline left


class RunState(StrEnum):
    """The current state of a run according to its run directory."""

    STARTING = "starting"  # spec written, the Runner has not reported yet
    PENDING = "pending"  # queued by a scheduler; the run's clocks are stopped
    RUNNING = "running"
    EVALUATING = "evaluating"  # the trainer has exited, the Runner is running the evaluation
    STOPPING = "stopping"  # a stop was requested, the Runner is still alive
    UNREACHABLE = "unreachable"  # the target does not answer; nothing is concluded from that
    ENDED = "ended"  # there is an exit record
    DEAD = "dead"  # neither an exit record nor a living Runner: to be recorded as `lost`

    @property
    def lives(self) -> bool:
        """Whether the run has not ended."""
        return self not in (RunState.ENDED, RunState.DEAD)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Written once as `spec.json`, before anything is started; never changed afterwards.

    All paths are absolute. `environment` is for the record only: secrets in it are masked; the real
    one is passed in a file that the Runner reads and removes.
    """

    run: str  # run id, e.g. "sort-lr-7k2m9x"
    slug: str
    purpose: str
    campaign: str
    experiment: str  # directory name under the campaign; unique there
    index: int  # the attempted idea, from 1
    replicate: int
    blueprint: str
    blueprint_sha: str
    recipe: str  # "" if there is none
    trainer: str
    command: str  # the launch command, for `bash -c`
    cwd: str
    interpreter: str  # exp_venv_exe as resolved
    limits: Limits
    session: str
    run_dir: str
    result_dir: str
    ledger: str
    created: float  # wall clock, seconds
    launcher: str = "tmux"
    objective: Objective | None = None
    constraints: tuple[str, ...] = ()  # limits on other metrics; a run that breaks one is judged like a crash
    branch: str = ""
    commit: str = ""
    recipe_in_commit: str = ""  # path of the recipe in that commit; "" if it is not in it
    parent_commit: str = ""
    parent_branch: str = ""
    fix_of: str = ""
    seed: int | None = None
    seed_by: str = ""  # how it is passed to the training
    driven_by: str = ""  # the coding agent that typed the command, if one did
    lines: tuple[str, ...] = ()  # line formats that the blueprint declares: `step ...`, `validation ...`
    sources: tuple[Source, ...] = ()
    source_offsets: tuple[int, ...] = ()  # bytes in each source before the run, which are not of this run
    source_marks: tuple[str, ...] = ()  # fingerprints of those bytes, to recognise a file that was rewritten
    held: dict[str, str] = field(default_factory=dict)  # other files of metrics before the run -> size, fingerprint
    within: tuple[str, ...] = ()  # real directories in which the sources of a sandboxed run must lie; (): anywhere
    signals: tuple[SignalPattern, ...] = ()
    prepare: tuple[str, ...] = ()
    cleanup: tuple[str, ...] = ()
    evaluate: tuple[str, ...] = ()  # commands that measure it after training; (): the trainer's output counts
    evaluate_s: float = EVALUATE_S  # limit for all of them together, in addition to `limits`
    evaluate_in: str = ""  # their working directory; "" for `cwd`
    evaluate_place: str = ""  # autoresearch's command that creates `evaluate_in` afresh
    worktree: str = ""  # autoresearch's worktree in which it trains; "" for the user's checkout
    sandbox: str = ""  # the sandbox that it trains in: bwrap, or "" for none
    environment: dict[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()  # that it may be leased, by UUID
    keep_children: bool = False
    left_out: tuple[str, ...] = ()  # what the snapshot omitted, and why
    edited: tuple[str, ...] = ()  # what its commit holds and HEAD does not, some paths
    no_snapshot: str = ""  # why there is no commit of the code of a lone run
    notes: str = ""
    timed_by: str = ""  # origin of `limits.max_s` if not exp_max_time: timeout, DEADLINE
    why: str = ""  # in a campaign: baseline, first, retest, retry, confirm
    swarm: Swarm | None = None  # the server side, in AgentJet's swarm mode
    interpreter_source: str = ""  # blueprint, active environment, .venv, venv or PATH

    @property
    def interpreter_words(self) -> str:
        """Which python it uses, and why that one: `/x/.venv/bin/python (active environment)`."""
        return f"{self.interpreter} ({self.interpreter_source})" if self.interpreter_source else self.interpreter

    @property
    def metric_keys(self) -> tuple[str, ...]:
        """The metrics to read of it: those of its objective and of its constraints."""
        limited = (one.key for one in parsed(self.constraints) if one.key != MEMORY)
        return tuple(dict.fromkeys((*((self.objective.key,) if self.objective else ()), *limited)))

    @property
    def unkept(self) -> str:
        """What of the code that runs no commit holds, in one sentence; "" if one holds all of it."""
        if self.no_snapshot:
            return f"no snapshot of the code was kept: {self.no_snapshot}"
        edits = [item for item in self.left_out if SUBMODULE_EDITS in item]
        return f"the snapshot lacks a part of the code: {', '.join(edits)}" if edits else ""
