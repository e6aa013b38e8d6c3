"""Find and remove what is left of campaigns and runs that are over: worktrees, and what lies beside them.

Branches, ledgers, results and run directories are never touched, nor what is alive, or was made by somebody else. A
worktree goes if git sees no change in it. Everything is looked at again right before it is removed, so that two
commands at once, or a campaign that begins meanwhile, hurt nobody; after a kill the next call goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from autoresearch.core.text.numbers import listed
from autoresearch.core.text.regex import later
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.remove_tree import discard
from autoresearch.git_repo.worktrees import Slot, owner_at
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaign_setup.campaign_registry import KnownCampaign
from autoresearch.lab.campaign_setup.campaign_spec import default_trees
from autoresearch.lab.campaigns.campaign_status import has_ended
from autoresearch.lab.campaigns.outputs import written
from autoresearch.lab.disk.usage import disk_usage
from autoresearch.lab.parts import Parts
from autoresearch.records import campaign_records, recorded_run
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import locked
from autoresearch.records.index import state_home
from autoresearch.records.rundir import RunDir

MOST_NAMED = 3  # files that would be lost
# what lies beside a worktree: a run's own /tmp, the repository of an edit, the last guard; what was being removed
_BESIDE = later(
    r"(?:slot-\d+|evaluation-\d+|agent-[ab](?:-\d+)?|reading)\.(?:tmp|git|index|objects|guard)\Z"
    r"|\..+(?:\.removing|\.left-\d+)\Z"
)


class LeftoverKind(StrEnum):
    """What a leftover is."""

    WORKTREE = "worktree"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that nobody needs any more, or (without `remove`) that would be lost, or is in use after all."""

    kind: LeftoverKind
    name: str  # its path
    why: str
    bytes: int = 0
    remove: Callable[[], str] | None = None  # looks again; "" if gone, else why it stays. OSError, AutoresearchError


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was found; `removed` are those of `leftovers` that are gone."""

    leftovers: tuple[Leftover, ...]
    kept: tuple[Leftover, ...]
    removed: frozenset[str] = frozenset()


def find_leftovers(parts: Parts, project: Path | None) -> Cleaned:
    """Everything that could go, of a project or of all (None); changes nothing."""
    every = list(_worktrees(parts, project))
    return Cleaned(tuple(one for one in every if one.remove), tuple(one for one in every if not one.remove))


def remove_leftovers(parts: Parts, project: Path | None) -> Cleaned:
    """Find and remove it; of two calls at once, the second waits. What could not be removed is in `kept`."""
    with locked(state_home(parts.environ) / "clean.lock"):
        every = find_leftovers(parts, project)
        removed, kept = set[str](), list(every.kept)
        for one in every.leftovers:
            try:
                why = one.remove() if one.remove else ""
            except AutoresearchError as error:
                why = error.message
            except OSError as error:
                why = f"{error.filename or one.name}: {error.strerror or error}"
            if why:
                kept.append(Leftover(one.kind, one.name, why))
            else:
                removed.add(one.name)
        return Cleaned(every.leftovers, tuple(kept), frozenset(removed))


def _worktrees(parts: Parts, project: Path | None) -> Iterator[Leftover]:
    """Those of campaigns that are over, and what lies beside them."""
    for campaign in campaign_registry.registered(parts):
        if project is None or campaign.is_of(project):
            trees = _trees_of(campaign.campaign_dir, parts)
            if why := _goes_on(campaign.name, campaign.campaign_dir) if trees.is_dir() else "":
                if "not ended" in why:
                    hint = f"{why}: `campaign resume` goes on, `campaign stop` ends it"
                    yield Leftover(LeftoverKind.WORKTREE, str(trees), hint)
            else:
                yield from _below(trees, parts, campaign)


def _trees_of(own: CampaignDir, parts: Parts) -> Path:
    with contextlib.suppress(AutoresearchError):
        return Path(campaign_records.declared_spec(own).trees)
    return default_trees(own.path, parts)


def _goes_on(name: str, own: CampaignDir) -> str:
    """Why nothing of a campaign may be touched; "" if it is over, or was removed."""
    if own.controlled:
        return f"the campaign {name} is running"
    return f"the campaign {name} has not ended" if own.spec.exists() and not has_ended(own) else ""


def _below(trees: Path, parts: Parts, known_campaign: KnownCampaign) -> Iterator[Leftover]:
    """What could go of the worktrees of a campaign."""
    done = f"the campaign {known_campaign.name} is over"
    trees, names = trees.resolve(), set[str]()
    remove = partial(_remove, trees, known_campaign)
    for marker in sorted(trees.glob("*.slot")):
        owner, path = owner_at(marker), marker.with_suffix("")
        names.add(path.name)
        checkout = repository.find(owner[0].parent if owner[0].name == ".git" else owner[0]) if owner else None
        if owner is None or checkout is None or checkout.common_dir != owner[0]:
            why = "its repository is gone: git cannot say what would be lost"
            yield Leftover(LeftoverKind.WORKTREE, str(path), why)
            continue
        slot = Slot(checkout, path, owner[1])
        if why := _unsaved(slot, parts):
            yield Leftover(LeftoverKind.WORKTREE, str(path), why)
        else:
            away = partial(remove, partial(_unsaved, slot, parts), slot.remove)
            yield Leftover(LeftoverKind.WORKTREE, str(path), done, disk_usage([path]).bytes, away)
    for path in sorted(trees.glob("*")):  # caches of runs, and what an earlier removal, or another user, left
        if _BESIDE.match(path.name) and (path.suffix == ".tmp" or path.stem not in names):
            why = done if path.suffix == ".tmp" else "it is of a worktree that is gone"
            away = partial(remove, lambda: "", partial(discard, path))
            yield Leftover(LeftoverKind.CACHE, str(path), why, disk_usage([path]).bytes, away)


def _unsaved(slot: Slot, parts: Parts) -> str:
    """Why a worktree stays: a run is in it, or what git sees there would be lost; "" if it may go."""
    for entry in parts.index.live():
        rundir = RunDir(Path(entry.run_dir))
        spec = recorded_run.read_if_whole(rundir)
        if spec and Path(spec.cwd).is_relative_to(slot.path) and rundir.state().lives:
            return f"the run {entry.run} is alive"
    lost = slot.unsaved() or tuple(written(slot))
    return f"changes that no commit holds: {listed(lost, MOST_NAMED)}" if lost else ""


def _remove(
    trees: Path, known_campaign: KnownCampaign, why_not: Callable[[], str], take_away: Callable[[], None]
) -> str:
    """Remove something if that is still right; a campaign that is started meanwhile waits until it is gone."""
    with contextlib.ExitStack() as held:
        if known_campaign.campaign_dir.path.is_dir():
            lock = known_campaign.campaign_dir.path / "start.lock"  # a controller is started under it
            if not held.enter_context(locked(lock, blocking=False)):
                return f"the campaign {known_campaign.name} is being started"
        if why := _goes_on(known_campaign.name, known_campaign.campaign_dir) or why_not():
            return why
        take_away()
    with contextlib.suppress(OSError):  # not empty
        trees.rmdir()
    return ""
