"""What the runs of a campaign wrote beside their results: what `lab.campaigns.outputs` kept, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.campaign.state import CampaignState, Idea, measured
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.lab.disk.usage import gb
from autoresearch.records.rundir import RunDir, read_json

MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class RunOutputs:
    """What one recorded run wrote."""

    idea: Idea
    row: LedgerRow
    rundir: RunDir
    files: tuple[str, ...]  # kept, relative to its `outputs`
    bytes: int  # of these
    removed: tuple[str, ...] = ()
    why: str = ""  # they were removed
    written: int = 0  # bytes that it wrote in its worktree, removed or not
    results: int = 0  # bytes in its result directory when it was recorded


def outputs_of(state: CampaignState) -> list[RunOutputs]:
    """What the recorded runs wrote, as far as it was recorded, in the order of the ledger."""
    found = []
    for idea in state.ideas:
        for row in idea.rows:
            rundir = RunDir(Path(row.run_dir))
            record = read_json(rundir.outputs_record) if row.run_dir else None
            if record:
                files, removed = tuple(record.get("files") or ()), tuple(record.get("removed") or ())
                size, written, results = (int(record.get(key) or 0) for key in ("bytes", "written", "results"))
                why = str(record.get("why") or "")
                found.append(RunOutputs(idea, row, rundir, files, size, removed, why, written or size, results))
    return found


def words(state: CampaignState) -> list[str]:
    """What the report says of it: the best idea's files first, then what was removed, by name."""
    every = outputs_of(state)
    best = [one for one in every if one.files and is_best(state, one.rundir)]
    found = [f"{one.idea.name}: {shown(one.files)} ({gb(one.bytes)}) in {one.rundir.outputs}" for one in best]
    kept = [one for one in every if one.files and one not in best]
    if kept:
        size = gb(sum(one.bytes for one in kept))
        found.append(f"of {len(kept)} other runs {size} are kept, in `outputs` of their run directories")
    gone = (one for one in every if one.removed)
    return [*found, *(f"{one.row.run_id}: removed {shown(one.removed)}: {one.why}" for one in gone)]


def is_best(state: CampaignState, rundir: RunDir) -> bool:
    """Whether it is the last measured run of the best idea."""
    best = state.best
    rows = [row for row in best.rows if measured(row) is not None] if best else []
    return bool(rows) and Path(rows[-1].run_dir) == rundir.path


def shown(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    first = ", ".join(names[:MOST_NAMED])
    return first + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
