"""Worktrees of campaigns that are over and of rows made again, and what lies beside them; what a leftover is."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from autoresearch.core.text.regex import later
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.remove_tree import discard
from autoresearch.git_repo.worktrees import RETIRED, Slot, admin_of, owner_at, slots_below
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaign_setup.campaign_spec import default_trees
from autoresearch.lab.campaigns.campaign_status import has_ended
from autoresearch.lab.campaigns.outputs import written
from autoresearch.lab.disk.usage import disk_usage
from autoresearch.lab.parts import Parts
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.index import state_home
from autoresearch.records.recorded_run import read as read_run
from autoresearch.records.rundir import RunDir, locked
from autoresearch.runner.basics import failpoint

YOUNG_S = 600.0  # a worktree without a campaign that was switched so recently may be about to be used
MOST_NAMED = 3  # files that would be lost
# what lies beside a worktree: a run's own /tmp, the repository of an edit, the last guard; what was being removed
_BESIDE = later(
    r"(?:slot-\d+|evaluation-\d+|agent-[ab](?:-\d+)?|reading)\.(?:tmp|git|index|objects|guard)\Z"
    rf"|\..+(?:{re.escape(RETIRED)}|\.left-\d+)\Z"
)
_CACHE = later(r".+\.tmp\Z|\..+\Z")  # of these, what a worktree that is kept has no use for


class LeftoverKind(StrEnum):
    """What a leftover is."""

    WORKTREE = "worktree"
    SESSION = "session"
    CACHE = "cache"
    RECORD = "record"  # of the state directory: locks that nobody holds, files that were never renamed, old logs


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that nobody needs any more, or (without `remove`) that would be lost, or is in use after all."""

    kind: LeftoverKind
    name: str  # its path, or the name of the session
    why: str
    bytes: int = 0
    remove: Callable[[], str] | None = None  # looks again; "" if gone, else why it stays. OSError, AutoresearchError


@dataclass(frozen=True, slots=True)
class TreesDir:
    """A directory of worktrees; without a campaign, each of them is on its own."""

    path: Path
    title: str  # what it was for, as the subject of a sentence
    campaign_dir: CampaignDir | None = None

    def in_use(self) -> str:
        """Why nothing here may be touched; "" if the campaign is over, or was removed."""
        own = self.campaign_dir
        if own is None:
            return ""
        if own.controlled:
            return f"{self.title} is running"
        return f"{self.title} has not ended" if own.spec.exists() and not has_ended(own) else ""

    def remove(self, why_not: Callable[[], str], take_away: Callable[[], Path | None]) -> str:
        """Remove something here if that is still right; a campaign that is started meanwhile waits until it is gone.

        `take_away` deletes it, or only moves it aside, to the path that it returns.
        """
        with contextlib.ExitStack() as held:
            if self.campaign_dir is not None and self.campaign_dir.path.is_dir():
                lock = self.campaign_dir.path / "start.lock"  # a controller is started under it
                if not held.enter_context(locked(lock, blocking=False)):
                    return f"{self.title} is being started"
            if why := self.in_use() or why_not():
                return why
            aside = take_away()
        if aside:
            failpoint("clean.retired")
            discard(aside)
        with contextlib.suppress(OSError):  # not empty
            self.path.rmdir()
        return ""


def _trees_dirs(parts: Parts, project: Path | None) -> Iterator[TreesDir]:
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


def old_worktrees(parts: Parts, project: Path | None) -> Iterator[Leftover]:
    """Worktrees of campaigns that are over and of rows made again, and what lies beside them."""
    for trees in _trees_dirs(parts, project):
        if not trees.path.is_dir():
            continue
        if why := trees.in_use():
            if "not ended" in why:
                hint = f"{why}: `campaign resume` goes on, `campaign stop` ends it"
                yield Leftover(LeftoverKind.WORKTREE, str(trees.path), hint)
            continue
        for owner in sorted({own[0] for own in map(owner_at, trees.path.glob("*.slot")) if own}):
            yield from _of_repository(trees, owner, parts, project)
        for path in sorted(trees.path.iterdir()):  # caches of runs, and what an earlier removal, or another user, left
            slot = path.with_name(f"{path.name.partition('.')[0]}.slot")
            if _BESIDE.match(path.name) and not (slot.exists() and not _CACHE.match(path.name)):
                why = f"{trees.title} is over" if path.name.endswith(".tmp") else "it is of a worktree that is gone"
                remove = partial(trees.remove, partial(_why_used, path, parts), partial(discard, path))
                yield Leftover(LeftoverKind.CACHE, str(path), why, disk_usage([path]).bytes, remove)


def _of_repository(trees: TreesDir, git_dir: Path, parts: Parts, project: Path | None) -> Iterator[Leftover]:
    checkout = _checkout_of(git_dir)
    if checkout is None:
        if project is None:
            why = f"its repository {git_dir} is gone, so it is unknown what would be lost"
            yield Leftover(LeftoverKind.WORKTREE, str(trees.path), why)
        return
    if project is not None and checkout.project != project and trees.campaign_dir is None:
        return
    for one in slots_below(checkout, trees.path):
        if one.path.parent != Path(os.path.realpath(trees.path)):
            continue
        why_kept = partial(_why_kept, one, trees, parts)
        if why := why_kept():
            yield Leftover(LeftoverKind.WORKTREE, str(one.path), why)
        else:
            purpose = one.reason.partition(": ")[2] or "a run"
            done = f"{trees.title} is over" if trees.campaign_dir else f"it was made for {purpose}"
            remove = partial(trees.remove, why_kept, one.retire)
            yield Leftover(LeftoverKind.WORKTREE, str(one.path), done, disk_usage([one.path]).bytes, remove)


def _checkout_of(git_dir: Path) -> Checkout | None:
    root = git_dir.parent if git_dir.name == ".git" else git_dir
    found = repository.find(root) if git_dir.is_dir() else None
    return found if found and found.common_dir == git_dir else None


def _why_kept(slot: Slot, trees: TreesDir, parts: Parts) -> str:
    """Why this worktree stays; "" if nobody uses it and nothing would be lost."""
    if why := _why_used(slot.path, parts):
        return why
    if trees.campaign_dir is None and parts.clock() - _switched(slot) < YOUNG_S:
        return "it was used a moment ago"
    lost = slot.unsaved() or tuple(written(slot))
    more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
    return f"changes that no commit holds: {', '.join(lost[:MOST_NAMED])}{more}" if lost else ""


def _why_used(path: Path, parts: Parts) -> str:
    """The run or the process that is in a directory now; "" if there is none. Others' processes cannot be seen."""
    for entry in parts.index.live():
        rundir = RunDir(Path(entry.run_dir))
        with contextlib.suppress(OSError, AutoresearchError):
            cwd = Path(read_run(rundir).cwd)
            if (cwd == path or path in cwd.parents) and rundir.state().lives:
                return f"the run {entry.run} is alive"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            cwd = Path(os.readlink(process / "cwd"))  # noqa: PTH115 - no need of a Path's checks
            if cwd == path or path in cwd.parents:
                return f"the process {process.name} is in it"
    return ""


def _switched(slot: Slot) -> float:
    """When git last wrote there; wall clock."""
    admin = admin_of(slot.path)
    times = [0.0]
    for path in (slot.marker, *((admin / name for name in ("HEAD", "index", "ORIG_HEAD")) if admin else ())):
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)
