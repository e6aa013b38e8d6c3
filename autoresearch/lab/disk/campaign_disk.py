"""What a campaign takes of the disks: said before it starts, and measured while it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.controller.cost import RunCount
from autoresearch.core.run.spec import RunState
from autoresearch.core.text.numbers import counted
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import GitFailed
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.disk.usage import GB, MOST_OF_A_RUN, DiskUsage, disk_usage, free_bytes, gb
from autoresearch.lab.parts import Parts
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import RunDir, read_json
from autoresearch.values import dataclass

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


@dataclass(frozen=True, slots=True)
class RunSize:
    """What one run leaves, in bytes, and how that is known."""

    written: float  # in its worktree
    results: float  # in its result directory
    source: str  # a clause


@dataclass(frozen=True, slots=True)
class DiskDemand:
    """What a campaign needs of one volume, and what that has, in bytes."""

    directory: Path
    needed: float
    free: int
    certain: bool  # False: it is the most that may be kept, as no earlier run is known


@dataclass(frozen=True, slots=True)
class DiskPlan:
    """What a campaign will take of the disks."""

    keep_bytes: float
    run: RunSize | None
    runs: float | None  # that are expected; None if nothing limits them
    worktrees: int
    worktree_bytes: int  # of one, without what a run writes in it
    demands: tuple[DiskDemand, ...]

    @property
    def outputs(self) -> float:
        """The bytes of its outputs that are likely to be kept, or the most that may be."""
        if self.run is None or self.runs is None:
            return self.keep_bytes
        return min(self.keep_bytes, self.run.written * self.runs)

    @property
    def results(self) -> float | None:
        """The bytes of all result directories, which `keep_gb` does not limit; None if unknown."""
        return None if self.run is None or self.runs is None else self.run.results * self.runs

    @property
    def words(self) -> str:
        """For the plan that a person agrees to."""
        trees = f"{counted(self.worktrees, 'worktree')} of {gb(self.worktree_bytes)}"
        free = ", ".join(f"{gb(one.free)} free in {one.directory}" for one in self.demands)
        if self.run is None:
            keep = f"at most {self.keep_bytes / GB:g} GB of outputs, and results"
            return f"{trees}; {keep} of unknown size, as no earlier run of this blueprint shows it; {free}"
        one = f"a run leaves {gb(round(self.run.written))} of outputs and {gb(round(self.run.results))} of results"
        known = f"{one} ({self.run.source})"
        if self.results is None or self.runs is None:
            return f"{trees}; {known}; {free}"
        both = f"{gb(round(self.outputs))} and {gb(round(self.results))}"
        return f"{trees}; {known}: about {both} for {counted(self.runs, 'run')}; {free}"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """A warning for each volume that has too little room."""
        return tuple(
            Finding(
                Severity.WARNING,
                "disk_too_small",
                f"{'about' if one.certain else 'up to'} {gb(round(one.needed))} may be needed in {one.directory}, "
                f"where {gb(one.free)} are free",
                "`autoresearch clean` shows what could go; `--set keep_gb=N` keeps less of the outputs; `trees` and "
                "exp_result_dir may lie on another volume",
            )
            for one in self.demands
            if one.needed > one.free
        )

    def to_json(self) -> dict[str, Any]:
        """The numbers, in bytes; null where no earlier run tells."""
        return {
            "keep_at_most": round(self.keep_bytes),
            "run_outputs": self.run and round(self.run.written),
            "run_results": self.run and round(self.run.results),
            "outputs": round(self.outputs),
            "results": None if self.results is None else round(self.results),
            "worktrees": self.worktrees * self.worktree_bytes,
            "volumes": [
                {"directory": str(one.directory), "needed": round(one.needed), "free": one.free} for one in self.demands
            ],
        }


def planned_disk(campaign_spec: CampaignSpec, run_count: RunCount | None, checkout: Checkout, parts: Parts) -> DiskPlan:
    """What a campaign will take, from what earlier runs of its blueprint left."""
    spec, size = campaign_spec, _run_size(campaign_spec, parts)
    tree, trees, usual = _tree_bytes(checkout), spec.parallel + 1, float(run_count.usual) if run_count else None
    plan = DiskPlan(spec.keep_gb * GB, size, usual, trees, tree, ())
    needs = [
        (Path(spec.trees), trees * tree + spec.parallel * (size.written if size else 0.0)),
        (Path(spec.directory), plan.outputs),
        (Path(spec.result_dir), plan.results or 0.0),
    ]
    demands = tuple(_by_volume(needs, certain=size is not None))
    return DiskPlan(plan.keep_bytes, size, usual, trees, tree, demands)


def _by_volume(needs: Iterable[tuple[Path, float]], *, certain: bool) -> Iterable[DiskDemand]:
    volumes: defaultdict[int, list[tuple[Path, int, float]]] = defaultdict(list)
    for path, needed in needs:
        existing, free = free_bytes(path)
        volumes[existing.stat().st_dev].append((existing, free, needed))
    for found in volumes.values():
        directory, free, _ = found[-1]
        yield DiskDemand(directory, sum(needed for *_, needed in found), free, certain)


def _run_size(campaign_spec: CampaignSpec, parts: Parts) -> RunSize | None:
    """What a run of this blueprint leaves, by the newest campaign that measured it, else by its newest run."""
    for campaign in campaign_registry.known(parts):
        if (read_json(campaign.campaign_dir.spec) or {}).get("blueprint") != campaign_spec.blueprint:
            continue
        found = runs_on_disk(campaign.campaign_dir)
        if found.runs and campaign.campaign_dir.disk.exists():
            source = f"as those of the campaign {campaign.name} on average"
            return RunSize(found.written / found.runs, found.results / found.runs, source)
    for entry in parts.index.by_blueprint(campaign_spec.blueprint):
        if RunDir(Path(entry.run_dir)).state() is RunState.ENDED:
            size = disk_usage([Path(entry.result_dir)], MOST_OF_A_RUN).bytes
            return RunSize(0.0, size, f"as the result directory of the run {entry.run}")
    return None


def _tree_bytes(checkout: Checkout) -> int:
    """The bytes of all files of HEAD; 0 without a commit."""
    try:  # `<mode> <type> <object> <size>\t<path>` (git-ls-tree(1)); a submodule's size is `-`
        listed = checkout.git.run("ls-tree", "-r", "-l", "-z", "HEAD").split(b"\0")
    except GitFailed:
        return 0
    sizes = (entry.partition(b"\t")[0].split()[-1] for entry in listed if entry)
    return sum(int(size) for size in sizes if size.isdigit())
