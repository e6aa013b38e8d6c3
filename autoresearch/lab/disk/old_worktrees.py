"""Worktrees, and the caches beside them, of campaigns that are over, and of rows made again."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from autoresearch.errors import AutoresearchError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.remove_tree import discard
from autoresearch.git_repo.worktree_registry import admin_of
from autoresearch.git_repo.worktrees import RETIRED, Slot, owner_at, slots_below
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaign_setup.campaign_spec import default_trees
from autoresearch.lab.campaigns.campaign_status import has_ended
from autoresearch.lab.campaigns.outputs import written
from autoresearch.lab.disk.leftovers import KeptLeftover, Leftover, LeftoverKind, few
from autoresearch.lab.disk.usage import disk_usage
from autoresearch.lab.parts import Parts
from autoresearch.lab.results import repro
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.failpoint import failpoint
from autoresearch.records.index import state_home
from autoresearch.records.rundir import RunDir, locked
from autoresearch.records.spec_file import read as read_run

YOUNG_S = 600.0  # a worktree without a campaign that was switched so recently may be about to be used
OWN_MESSAGES = (repro.MESSAGE_END,)
# what lies beside a worktree: a run's own /tmp, the repository of an edit, the last guard; what was being removed
_BESIDE = re.compile(
    r"(?:slot-\d+|evaluation-\d+|agent-[ab]|reading)\.(?:tmp|git|index|objects|guard)\Z"
    rf"|\..+(?:{re.escape(RETIRED)}|\.left-\d+)\Z"
)
_CACHE = re.compile(r".+\.tmp\Z|\..+\Z")  # of these, what a worktree that is kept has no use for


@dataclass(frozen=True, slots=True)
class TreesDir:
    """A directory of worktrees; without a campaign, each of them is on its own."""

    path: Path
    title: str  # what it was for, as the subject of a sentence
    campaign_dir: CampaignDir | None = None

    def in_use(self, parts: Parts) -> str:
        """Why nothing here may be touched; "" if the campaign is over, or was removed."""
        own = self.campaign_dir
        if own is None:
            return ""
        if own.controlled:
            return f"{self.title} is running"
        return f"{self.title} has not ended" if own.spec.exists() and not has_ended(own) else ""


def trees_dirs(parts: Parts, project: Path | None) -> Iterator[TreesDir]:
    """The directories that hold worktrees of a project, or of all."""
    home, claimed = state_home(parts.environ), set[Path]()
    for campaign in campaign_registry.registered(parts):
        usual = default_trees(campaign.campaign_dir.path, parts)
        declared = usual
        with contextlib.suppress(AutoresearchError):
            declared = Path(campaign_records.declared_spec(campaign.campaign_dir).trees)
        claimed |= {usual, declared}
        if project is None or campaign.is_of(project):
            for path in dict.fromkeys((declared, usual)):
                yield TreesDir(path, f"the campaign {campaign.name}", campaign.campaign_dir)
    for path in (home / "worktrees").glob("*"):
        if path not in claimed:
            yield TreesDir(path, "whatever it was made for")
    yield TreesDir(home / "repro", "a row made again")


def old_worktrees(parts: Parts, project: Path | None) -> Iterator[Leftover | KeptLeftover]:
    """Worktrees and what lies beside them, of a project or of all (None)."""
    for trees in trees_dirs(parts, project):
        if not trees.path.is_dir():
            continue
        if why := trees.in_use(parts):
            if "not ended" in why:
                hint = f"{why}: `campaign resume` goes on, `campaign stop` ends it"
                yield KeptLeftover(LeftoverKind.WORKTREE, str(trees.path), hint)
            continue
        for owner in sorted({own[0] for own in map(owner_at, trees.path.glob("*.slot")) if own}):
            yield from _of_repository(trees, owner, parts, project)
        yield from _beside(trees, parts)


def _of_repository(
    trees: TreesDir, git_dir: Path, parts: Parts, project: Path | None
) -> Iterator[Leftover | KeptLeftover]:
    checkout = _checkout_of(git_dir)
    if checkout is None:
        if project is None:
            why = f"its repository {git_dir} is gone, so it is unknown what would be lost"
            yield KeptLeftover(LeftoverKind.WORKTREE, str(trees.path), why)
        return
    if project is not None and checkout.project != project and trees.campaign_dir is None:
        return
    for one in slots_below(checkout, trees.path):
        if one.path.parent != Path(os.path.realpath(trees.path)):
            continue
        if why := _why_kept(one, trees, parts):
            yield KeptLeftover(LeftoverKind.WORKTREE, str(one.path), why)
        else:
            size = disk_usage([one.path]).bytes
            done = f"{trees.title} is over" if trees.campaign_dir else f"it was made for {_purpose(one)}"
            remove = partial(_remove, one, trees, parts)
            yield Leftover(LeftoverKind.WORKTREE, str(one.path), size, done, remove)


def _checkout_of(git_dir: Path) -> Checkout | None:
    root = git_dir.parent if git_dir.name == ".git" else git_dir
    found = repository.find(root) if git_dir.is_dir() else None
    return found if found and found.common_dir == git_dir else None


def _purpose(slot: Slot) -> str:
    return slot.reason.partition(": ")[2] or "a run"


def _why_kept(slot: Slot, trees: TreesDir, parts: Parts) -> str:
    """Why this worktree stays; "" if nobody uses it and nothing would be lost."""
    if why := _why_used(slot.path, parts):
        return why
    if trees.campaign_dir is None and parts.clock() - _switched(slot) < YOUNG_S:
        return "it was used a moment ago"
    lost = slot.unsaved(OWN_MESSAGES) or tuple(written(slot))
    return f"changes that no commit holds: {few(lost)}" if lost else ""


def _why_used(path: Path, parts: Parts) -> str:
    """The run or the process that is in a directory now; "" if there is none."""
    for entry in parts.index.live():
        rundir = RunDir(Path(entry.run_dir))
        with contextlib.suppress(OSError, AutoresearchError):
            cwd = Path(read_run(rundir).cwd)
            if (cwd == path or path in cwd.parents) and rundir.state().lives:
                return f"the run {entry.run} is alive"
    return next((f"the process {pid} is in it" for pid in _inside(path)), "")


def _inside(path: Path) -> Iterator[int]:
    """The processes whose working directory is this one, or below it; those of others cannot be seen."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            cwd = Path(os.readlink(process / "cwd"))  # noqa: PTH115 - no need of a Path's checks
            if cwd == path or path in cwd.parents:
                yield int(process.name)


def _switched(slot: Slot) -> float:
    """When git last wrote there; wall clock."""
    admin = admin_of(slot.path)
    paths = [slot.marker, *((admin / name for name in ("HEAD", "index", "ORIG_HEAD")) if admin else ())]
    times = [0.0]
    for path in paths:
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


def _remove(slot: Slot, trees: TreesDir, parts: Parts) -> str:
    """Remove a worktree if that is still right; a campaign that is started meanwhile waits until it is out of the way.
    """
    with _alone(trees) as alone:
        if not alone:
            return f"{trees.title} is being started"
        if why := trees.in_use(parts) or _why_kept(slot, trees, parts):
            return why
        aside = slot.retire()
    failpoint("clean.retired")
    discard(aside)
    _forget_empty(trees)
    return ""


@contextlib.contextmanager
def _alone(trees: TreesDir) -> Iterator[bool]:
    """Hold the lock under which a campaign's controller is started."""
    if trees.campaign_dir is None or not trees.campaign_dir.path.is_dir():
        yield True
        return
    with locked(trees.campaign_dir.path / "start.lock", blocking=False) as alone:
        yield alone


def _forget_empty(trees: TreesDir) -> None:
    with contextlib.suppress(OSError):  # not empty
        trees.path.rmdir()


def _beside(trees: TreesDir, parts: Parts) -> Iterator[Leftover]:
    """Caches of runs, and what an earlier removal, or a run of another user, has left."""
    for path in sorted(trees.path.iterdir()):
        owner = path.with_name(f"{path.name.partition('.')[0]}.slot")
        if not _BESIDE.match(path.name) or (owner.exists() and not _CACHE.match(path.name)):
            continue
        why = f"{trees.title} is over" if path.name.endswith(".tmp") else "it is of a worktree that is gone"
        yield Leftover(
            LeftoverKind.CACHE, str(path), disk_usage([path]).bytes, why, partial(_discard, path, trees, parts)
        )


def _discard(path: Path, trees: TreesDir, parts: Parts) -> str:
    with _alone(trees) as alone:
        if not alone:
            return f"{trees.title} is being started"
        if why := trees.in_use(parts) or _why_used(path, parts):
            return why
        discard(path)
    _forget_empty(trees)
    return ""
