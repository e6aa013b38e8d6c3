"""The run of a row that is to be reproduced: what its commit holds, and what a second run cannot have in common."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Trainer
from autoresearch.errors import AutoresearchError, NotFoundError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.comparison import read_file
from autoresearch.git_repo.git import GitFailed
from autoresearch.git_repo.worktrees import Slot, slot
from autoresearch.lab.parts import Parts
from autoresearch.lab.recipes import recipe_of_run as recipes
from autoresearch.lab.results.row_lookup import LedgerMatch
from autoresearch.records import spec_file
from autoresearch.records.rundir import RunDir
from autoresearch.records.secrets import MASK
from autoresearch.trainers import registry

MOST = 100  # worktrees of one row


@dataclass(frozen=True, slots=True)
class OriginalRun:
    """The content of the row's commit."""

    spec: RunSpec
    blueprint: Blueprint
    recipe_path: str
    recipe: str
    root: Path  # of the checkout or worktree that it ran in
    trainer: Trainer


def read_original(match: LedgerMatch) -> tuple[Checkout, OriginalRun]:
    """Read it from its commit. Raises NotFoundError if the commit, the run directory or the blueprint is gone."""
    spec, checkout = match.spec, match.checkout()
    if spec is None:
        raise NotFoundError(
            f"the run directory of {match.run} is gone, and with it its command",
            hint=f"its code is at commit {match.commit[:12] or '(unknown)'}",
            code="run_dir_gone",
        )
    if checkout is None or not match.commit:
        what = "it was run without a commit" if checkout else "its repository is gone"
        raise NotFoundError(f"{match.run} cannot be made again: {what}", code="no_commit")
    try:
        checkout.git.run("cat-file", "-e", f"{match.commit}^{{commit}}")
    except GitFailed as failure:
        raise NotFoundError(
            f"{checkout.root} holds no commit {match.commit[:12]} any more",
            hint="its branch was deleted",
            code="no_commit",
        ) from failure
    path = recipes.blueprint_path(match, checkout)
    if not path:
        raise NotFoundError(f"commit {match.commit[:12]} holds no blueprint of {match.run}", code="no_blueprint")
    blueprint = parse_blueprint(read_file(checkout, match.commit, path), Path(path).name)
    recipe = recipes.recipe_path(match, checkout)
    text = read_file(checkout, match.commit, recipe).decode("utf-8", "replace") if recipe else ""
    root = _root_of(Path(spec.cwd), match, checkout)
    trainer = registry.choose(spec.trainer, spec.command, spec.lines)
    return checkout, OriginalRun(spec, blueprint, recipe, text, root, trainer)


def _root_of(cwd: Path, match: LedgerMatch, checkout: Checkout) -> Path:
    """The root of the tree that it ran in: a worktree of the campaign, or the checkout."""
    if match.campaign is not None:
        depth = len(Path(match.campaign.codebase).parts)
        return cwd.parents[depth - 1] if depth else cwd
    return checkout.root


def free_worktree(checkout: Checkout, preferred: Path, parts: Parts) -> Slot:
    """A worktree without edits or runs."""
    busy = [spec.cwd for entry in parts.index.live() if (spec := _spec(entry.run_dir))]
    for number in range(1, MOST):
        path = preferred if number == 1 else preferred.with_name(f"{preferred.name}-{number}")
        worktree = slot(checkout, path, reason="a row that is made again")
        inside = str(worktree.path)
        if not any(cwd == inside or cwd.startswith(inside + os.sep) for cwd in busy) and not worktree.changes():
            return worktree
    raise NotFoundError(f"{MOST} worktrees of this row hold changes of yours: {preferred}", code="slot_taken")


def _spec(run_dir: str) -> RunSpec | None:
    try:
        return spec_file.read(RunDir(Path(run_dir)))
    except (OSError, AutoresearchError):
        return None


def caveats_of(
    match: LedgerMatch, old: OriginalRun, linked: Iterable[str], redirected: Mapping[str, object]
) -> Iterable[str]:
    """What cannot be the same, and known differences."""
    spec, here = old.spec, os.uname().nodename
    if redirected:
        yield f"it writes elsewhere: {', '.join(redirected)} and the result directory point to a new place"
    for item in spec.left_out:
        yield f"it was not in the commit: {item}"
    if held := list(linked):
        yield f"linked as they are now, not as they were: {', '.join(held)}"
    if masked := [name for name, value in spec.environment.items() if MASK in value]:
        yield f"masked in the record, so taken from your environment: {', '.join(masked)}"
    if any(MASK in text for text in (spec.command, *spec.prepare, *spec.evaluate, *spec.cleanup)):
        yield f"masked in the record: {MASK} in its commands was a secret; give it yourself"
    yield "variables that the blueprint does not declare come from your environment, not from that run's"
    if match.host and match.host != here:
        yield f"it ran on {match.host}, this is {here}"
    if spec.launcher != "tmux":
        yield f"it ran at {spec.launcher}; --launcher says where it goes now"
    if spec.gpus:
        yield f"it had {len(spec.gpus)} GPUs ({', '.join(spec.gpus)}); which ones are free now is another matter"
    if not Path(spec.interpreter).exists():
        yield f"its interpreter {spec.interpreter} is not there any more"
    else:
        yield f"packages are those that {spec.interpreter} has now"
    if spec.seed is None:
        yield "nothing fixed its seed"
    if not old.recipe_path and spec.recipe:
        yield f"its recipe {spec.recipe} is not in the commit: the file is used as it is now"
