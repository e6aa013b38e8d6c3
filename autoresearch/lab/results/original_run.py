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
from autoresearch.errors import NotFoundError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import GitFailed
from autoresearch.git_repo.worktrees import Slot, slot
from autoresearch.lab.parts import Parts
from autoresearch.lab.results.row_lookup import LedgerMatch
from autoresearch.records import recorded_run
from autoresearch.records.rundir import RunDir
from autoresearch.runner.masking import MASK
from autoresearch.trainers import registry

MOST = 100  # worktrees of one row


@dataclass(frozen=True, slots=True)
class OriginalRun:
    """The content of the row's commit."""

    match: LedgerMatch
    spec: RunSpec
    checkout: Checkout
    blueprint: Blueprint
    recipe_path: str
    recipe: str
    root: Path  # of the checkout or worktree that it ran in
    trainer: Trainer


def read_original(match: LedgerMatch) -> OriginalRun:
    """Read it from its commit. Raises NotFoundError if the commit, the run directory or the blueprint is gone."""
    ran, run, commit = match.ran, match.row.run_id, match.row.commit
    spec, checkout = ran.spec, ran.checkout
    if spec is None:
        raise NotFoundError(
            f"the run directory of {run} is gone, and with it its command",
            hint=f"its code is at commit {commit[:12] or '(unknown)'}",
            code="run_dir_gone",
        )
    if checkout is None or not commit:
        what = "it was run without a commit" if checkout else "its repository is gone"
        raise NotFoundError(f"{run} cannot be made again: {what}", code="no_commit")
    try:
        checkout.git.run("cat-file", "-e", f"{commit}^{{commit}}")
    except GitFailed as failure:
        raise NotFoundError(
            f"{checkout.root} holds no commit {commit[:12]} any more",
            hint="its branch was deleted",
            code="no_commit",
        ) from failure
    if not (path := ran.blueprint_path()):
        raise NotFoundError(f"commit {commit[:12]} holds no blueprint of {run}", code="no_blueprint")
    blueprint = parse_blueprint(ran.read(path), Path(path).name)
    recipe = ran.recipe_path()
    text = ran.read(recipe).decode("utf-8", "replace") if recipe else ""
    depth = len(Path(ran.campaign.codebase).parts) if ran.campaign else 0
    root = checkout.root if ran.campaign is None else (Path(spec.cwd), *Path(spec.cwd).parents)[depth]
    trainer = registry.choose(spec.trainer, spec.command, spec.lines)
    return OriginalRun(match, spec, checkout, blueprint, recipe, text, root, trainer)


def free_worktree(checkout: Checkout, preferred: Path, parts: Parts) -> Slot:
    """A worktree without edits or runs."""
    busy = [
        spec.cwd for entry in parts.index.live() if (spec := recorded_run.read_if_whole(RunDir(Path(entry.run_dir))))
    ]
    for number in range(1, MOST):
        path = preferred if number == 1 else preferred.with_name(f"{preferred.name}-{number}")
        worktree = slot(checkout, path, reason="a row that is made again")
        inside = str(worktree.path)
        if not any(cwd == inside or cwd.startswith(inside + os.sep) for cwd in busy) and not worktree.changes():
            return worktree
    raise NotFoundError(f"{MOST} worktrees of this row hold changes of yours: {preferred}", code="slot_taken")


def caveats_of(old: OriginalRun, linked: Iterable[str], redirected: Mapping[str, object]) -> Iterable[str]:
    """What cannot be the same, and known differences."""
    spec, ran_on, here = old.spec, old.match.host, os.uname().nodename
    if redirected:
        yield f"it writes elsewhere: {', '.join(redirected)} and the result directory point to a new place"
    for item in spec.left_out:
        yield f"it was not in the commit: {item}"
    if held := list(linked):
        yield f"not in git, and seen as they are now, not as they were: {', '.join(held)}"
    if masked := [name for name, value in spec.environment.items() if MASK in value]:
        yield f"masked in the record, so taken from your environment: {', '.join(masked)}"
    if any(MASK in text for text in (spec.command, *spec.prepare, *spec.evaluate, *spec.cleanup)):
        yield f"masked in the record: {MASK} in its commands was a secret; give it yourself"
    yield "variables that the blueprint does not declare come from your environment, not from that run's"
    if ran_on and ran_on != here:
        yield f"it ran on {ran_on}, this is {here}"
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
