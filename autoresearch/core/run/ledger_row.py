"""LedgerRow: one run as one row, NeMo-RL's fifteen columns first, in its order, then ours.

The first fifteen are those of NeMo-RL's auto-research skill, so that its users and their scripts can
switch; they end with the free text `description`. Ours follow, in this order for these reasons:

    run_id replicate ending returncode seed parent_branch metric_noise    which run, how it ended, how sure
    metric_step best_value steps first_step_s failure trainer             what was measured, when, by whom
    result_dir run_dir fix_of campaign driven_by started ended            where it is, what it belongs to
    run_urls                                                              where trackers show it
    agent_usd agent_tokens flags                                          what the researcher used, what is suspicious
    sandbox                                                               what it trained in
    seed_by                                                               how the seed reached the training
    schema                                                                last and never empty: a row whose
                                                                          end is missing can be told apart
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

SCHEMA = 1

NEMO_COLUMNS = (
    "index",
    "branch",
    "parent_commit",
    "commit",
    "recipe",
    "metric_name",
    "metric_value",
    "memory_gb",
    "elapsed_min",
    "launcher",
    "job_id",
    "command",
    "log_path",
    "status",
    "description",
)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One execution of one hypothesis. None means: not known, written as an empty cell."""

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
    job_id: str = ""  # what the launcher calls it: the tmux session, the Slurm job
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
    run_urls: str = ""  # as the log says them, with spaces between; a ledger from before has no such column
    agent_usd: float | None = None  # of the turns of a researcher that led to this run
    agent_tokens: int | None = None
    flags: str = ""  # what looks suspicious in a researcher's diff, with "; " between
    sandbox: str = ""  # what it trained in: bwrap, or nothing
    seed_by: str = ""  # how the seed reached the training: a recipe key, a flag, a variable
    schema: int | None = SCHEMA

    def cells(self) -> dict[str, str]:
        """Column -> text, in column order; numbers in the shortest form that reads back the same."""
        return {name: _text(getattr(self, name)) for name in COLUMNS}

    @classmethod
    def from_cells(cls, cells: Mapping[str, str]) -> LedgerRow:
        """The row that these cells say, as far as they say one.

        People edit ledgers by hand: an unknown column is ignored, a missing one is empty, and a number
        that cannot be read is not known (an unreadable index is 0). Nothing here raises.
        """
        values = [read(cells.get(name, "")) for name, read in _READ.items()]
        return cls(values[0] or 0, *values[1:])  # type: ignore[arg-type]


COLUMNS = tuple(field.name for field in fields(LedgerRow))


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
    """A whole number as people and spreadsheets write it; None for anything else."""
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
