"""What a campaign takes of the disks, measured while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.lab.disk.usage import GB, DiskUsage, disk_usage, free_bytes, gb
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import read_json

MOST_ENTRIES = 10_000  # looked at in the worktrees for `campaign status`, which is asked often


@dataclass(frozen=True, slots=True)
class RunsOnDisk:
    """What the recorded runs of a campaign left, in bytes; what they wrote may be removed by now."""

    runs: int
    kept: int  # in `outputs` of their run directories
    results: int  # in their result directories
    written: int  # in their worktrees, together


def runs_on_disk(campaign_dir: CampaignDir) -> RunsOnDisk:
    """As its controller wrote it down at its last run. Older campaigns: what their runs keep, counted now."""
    record = read_json(campaign_dir.disk)
    if record is not None:
        return RunsOnDisk(*(int(record.get(key) or 0) for key in ("runs", "kept", "results", "written")))
    records = [read_json(path) or {} for path in campaign_dir.path.glob("*/outputs.json")]
    return RunsOnDisk(len(records), sum(int(one.get("bytes") or 0) for one in records), 0, 0)


@dataclass(frozen=True, slots=True)
class CampaignDisk:
    """What a campaign takes now."""

    runs: RunsOnDisk
    keep_bytes: float
    worktrees: DiskUsage
    free: int

    @property
    def words(self) -> str:
        """Such as `3.2 GB of at most 20 GB kept, 1.1 GB of results, 0.4 GB of worktrees; 78 GB free`."""
        runs = self.runs
        parts = [f"{gb(runs.kept)} of at most {self.keep_bytes / GB:g} GB kept"]
        parts += [f"{gb(runs.results)} of results"] if runs.results else []
        least = "" if self.worktrees.whole else "at least "
        parts += [f"{least}{gb(self.worktrees.bytes)} of worktrees"] if self.worktrees.entries else []
        return f"{', '.join(parts)}; {gb(self.free)} free"

    def to_json(self) -> dict[str, Any]:
        """Numbers of bytes; `worktrees_whole` is false where counting ended at its limit."""
        return {
            "kept": self.runs.kept,
            "keep_at_most": round(self.keep_bytes),
            "results": self.runs.results,
            "worktrees": self.worktrees.bytes,
            "worktrees_whole": self.worktrees.whole,
            "free": self.free,
        }


def campaign_disk(campaign_dir: CampaignDir, campaign_spec: CampaignSpec) -> CampaignDisk:
    """Measure it, at little cost: the records of its last run, and a bounded look at its worktrees."""
    trees = disk_usage([Path(campaign_spec.trees)], MOST_ENTRIES)
    _, free = free_bytes(campaign_dir.path)
    return CampaignDisk(runs_on_disk(campaign_dir), campaign_spec.keep_gb * GB, trees, free)
