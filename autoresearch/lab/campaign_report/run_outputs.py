"""What the runs of a campaign wrote beside their results: what `lab.campaigns.outputs` kept, and what it takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea, measured
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.text.numbers import listed
from autoresearch.lab.disk.usage import GB, DiskUsage, disk_usage, free_bytes, gb
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import read_json
from autoresearch.records.rundir import RunDir

MOST_NAMED = 8
MOST_ENTRIES = 10_000  # looked at in the worktrees for `campaign status`, which is asked often


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
                size, results = (int(record.get(key) or 0) for key in ("bytes", "results"))
                found.append(RunOutputs(idea, row, rundir, files, size, removed, str(record.get("why") or ""), results))
    return found


def words(state: CampaignState) -> list[str]:
    """What the report says of it: the best idea's files first, then what was removed, by name."""
    every = outputs_of(state)
    best = [one for one in every if one.files and is_best(state, one.rundir)]
    files = ((one, f"{listed(one.files, MOST_NAMED)} ({gb(one.bytes)})") for one in best)
    found = [f"{one.idea.name}: {named} in {one.rundir.outputs}" for one, named in files]
    kept = [one for one in every if one.files and one not in best]
    if kept:
        size = gb(sum(one.bytes for one in kept))
        found.append(f"of {len(kept)} other runs {size} are kept, in `outputs` of their run directories")
    gone = (one for one in every if one.removed)
    return [*found, *(f"{one.row.run_id}: removed {listed(one.removed, MOST_NAMED)}: {one.why}" for one in gone)]


def is_best(state: CampaignState, rundir: RunDir) -> bool:
    """Whether it is the last measured run of the best idea."""
    best = state.winner
    rows = [row for row in best.whole if measured(row) is not None] if best else []
    return bool(rows) and Path(rows[-1].run_dir) == rundir.path


@dataclass(frozen=True, slots=True)
class CampaignDisk:
    """What a campaign takes now, in bytes."""

    kept: int  # in `outputs` of its run directories
    results: int  # in the result directories of its recorded runs
    keep_bytes: float
    worktrees: DiskUsage
    free: int

    @property
    def words(self) -> str:
        """Such as `3.2 GB of at most 20 GB kept, 1.1 GB of results, 0.4 GB of worktrees; 78 GB free`."""
        parts = [f"{gb(self.kept)} of at most {self.keep_bytes / GB:g} GB kept"]
        parts += [f"{gb(self.results)} of results"] if self.results else []
        least = "" if self.worktrees.whole else "at least "
        parts += [f"{least}{gb(self.worktrees.bytes)} of worktrees"] if self.worktrees.entries else []
        return f"{', '.join(parts)}; {gb(self.free)} free"

    def to_json(self) -> dict[str, Any]:
        """Numbers of bytes; `worktrees_whole` is false where counting ended at its limit."""
        return {
            "kept": self.kept,
            "keep_at_most": round(self.keep_bytes),
            "results": self.results,
            "worktrees": self.worktrees.bytes,
            "worktrees_whole": self.worktrees.whole,
            "free": self.free,
        }


def campaign_disk(campaign_dir: CampaignDir, campaign_spec: CampaignSpec) -> CampaignDisk:
    """Measure it, at little cost: the records of its runs, and a bounded look at its worktrees."""
    records = [read_json(path) or {} for path in campaign_dir.path.glob("*/outputs.json")]
    kept, results = (sum(int(one.get(key) or 0) for one in records) for key in ("bytes", "results"))
    trees = disk_usage([Path(campaign_spec.trees)], MOST_ENTRIES)
    _, free = free_bytes(campaign_dir.path)
    return CampaignDisk(kept, results, campaign_spec.keep_gb * GB, trees, free)
