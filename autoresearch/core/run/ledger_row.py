"""LedgerRow: one run as one row, with NeMo-RL's fifteen columns first, in its order, then autoresearch's.

The first fifteen are those of NeMo-RL's auto-research skill, so that its users and their scripts can
switch; they end with the free text `description`. Autoresearch's follow, grouped by what they answer:

    run_id replicate ending returncode seed parent_branch metric_noise    which run, how it ended, how certain
    metric_step best_value steps first_step_s failure trainer             what was measured, when, by whom
    result_dir run_dir fix_of campaign driven_by started ended            where it is, what it belongs to
    run_urls                                                              where trackers show it
    agent_usd agent_tokens agent flags                                    the coding agent: cost, name, suspicious edits
    sandbox                                                               the sandbox that it trained in
    seed_by                                                               how the seed was passed to the training
    standing                                                              `pending`, or the status
    constraints                                                           the metrics that constraints limit
    reason                                                                why it has its status
    schema                                                                last and never empty, so that a
                                                                          truncated row is recognised
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from autoresearch.core.run.ending import WITHOUT_VALUE, Verdict
from autoresearch.core.run.spec import RunSpec

SCHEMA = 1

_OF_SPEC = (
    *("index", "replicate", "commit", "parent_commit", "parent_branch", "launcher", "command", "trainer", "sandbox"),
    *("seed", "seed_by", "result_dir", "run_dir", "fix_of", "campaign", "driven_by"),
)
"""Columns that hold what the spec of the run does."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One execution of one hypothesis. None means unknown and is written as an empty cell."""

    index: int  # the attempted idea, from 1; replicates and repaired reruns share it
    branch: str = ""
    parent_commit: str = ""
    commit: str = ""
    recipe: str = ""
    metric_name: str = ""
    metric_value: float | None = None  # NaN and infinities are kept as `nan`, `inf`, `-inf`
    memory_gb: float | None = None  # 10**9 bytes; peak of the process tree, or of the GPUs if any
    elapsed_min: float | None = None
    launcher: str = ""
    job_id: str = ""  # the ID in the launcher: tmux session, Slurm job ...
    command: str = ""  # secrets masked
    log_path: str = ""
    status: str = ""  # a Verdict
    description: str = ""
    run_id: str = ""
    replicate: int | None = None
    ending: str = ""  # an Ending
    returncode: int | None = None
    seed: int | None = None
    parent_branch: str = ""
    metric_noise: float | None = None  # in the metric's unit
    metric_step: int | None = None
    best_value: float | None = None
    steps: int | None = None
    first_step_s: float | None = None
    failure: str = ""  # failure class
    trainer: str = ""
    result_dir: str = ""
    run_dir: str = ""
    fix_of: str = ""  # run id
    campaign: str = ""
    driven_by: str = ""  # the coding agent that typed the command
    started: float | None = None  # wall clock, seconds since the epoch
    ended: float | None = None
    run_urls: str = ""  # as found in the log, separated by spaces; older ledgers lack this column
    agent_usd: float | None = None  # cost of the coding agent's turns that led to this run
    agent_tokens: int | None = None
    agent: str = ""  # the coding agent whose idea it is; older ledgers lack this column
    flags: str = ""  # what looks suspicious in the agent's diff, separated by "; "
    sandbox: str = ""  # the sandbox that it trained in: bwrap, or "" for none
    seed_by: str = ""  # how the seed was passed to the training: a recipe key, a flag, a variable
    standing: str = ""  # `pending` while more runs of the idea are owed, else the status; older ledgers lack it
    constraints: str = ""  # `memory_gb=12.3; val/toxicity=0.05`; older ledgers lack it
    reason: str = ""  # of its status; `description` ends with it in brackets; older ledgers lack it
    schema: int | None = SCHEMA

    @property
    def shown_status(self) -> str:
        """What people are shown of the status: `pending`, not `discard`, for an idea that is owed more runs.

        A run that has no value and judges nothing, such as one of a confirmation, is what it is, whatever its idea is.
        """
        own = self.status in WITHOUT_VALUE and self.standing != "pending"
        return self.status if own else self.standing or self.status

    @property
    def uncounted(self) -> bool:
        """Whether it has no metric that counts: it crashed, printed none, or was stopped, perhaps for its curve."""
        return self.status in WITHOUT_VALUE or self.ending == "stopped"

    @classmethod
    def of_spec(cls, spec: RunSpec) -> LedgerRow:
        """The row of a run that is not over: what was decided before it started."""
        return cls(
            **{name: getattr(spec, name) for name in _OF_SPEC},
            run_id=spec.run,
            branch=spec.branch if spec.commit else "",  # otherwise it was killed before the branch was created
            recipe=spec.recipe_in_commit or spec.recipe,
            metric_name=spec.objective.metric if spec.objective else "",
        )

    def cells(self) -> dict[str, str]:
        """Column -> text, in column order; numbers in the shortest form that reads back unchanged."""
        return {name: _text(getattr(self, name)) for name in COLUMNS}

    @classmethod
    def from_cells(cls, cells: Mapping[str, str]) -> LedgerRow:
        """Parse a row leniently, as people edit ledgers by hand.

        An unknown column is ignored, a missing one is empty, and a malformed number is None (a malformed index is 0).
        Never raises.
        """
        values = [read(cells.get(name, "")) for name, read in _READ.items()]
        return cls(values[0] or 0, *values[1:])  # type: ignore[arg-type]


def shown_statuses(rows: Sequence[LedgerRow]) -> list[str]:
    """`shown_status` of each row of a ledger, oldest first; of one that is pending no more, what became of its idea."""
    last = {row.index: row for row in rows}

    def shown(row: LedgerRow) -> str:
        final = last[row.index].standing or last[row.index].status
        if row.standing != "pending" or final == "pending":
            return row.shown_status
        return row.status if row.status in (*WITHOUT_VALUE, Verdict.SCREENED) else final

    return [shown(row) for row in rows]


COLUMNS = tuple(field.name for field in fields(LedgerRow))
NEMO_COLUMNS = COLUMNS[:15]


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(float(value))  # float(): a numpy scalar's repr is not a number
    return str(value)


def _number(cell: str) -> float | None:
    if not cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def integer(cell: str) -> int | None:
    """Parse a whole number, also in the form `3.0` of spreadsheets; None for anything else."""
    if not cell:
        return None
    try:
        return int(cell)
    except ValueError:
        number = _number(cell)  # a spreadsheet writes 3 as 3.0
    return int(number) if number is not None and number.is_integer() else None


_READERS: dict[str, Callable[[str], object]] = {
    "int": integer,
    "int | None": integer,
    "float | None": _number,
    "str": str,
}
_READ = {field.name: _READERS[str(field.type)] for field in fields(LedgerRow)}
NUMERIC_COLUMNS = frozenset(name for name, read in _READ.items() if read is not str)
