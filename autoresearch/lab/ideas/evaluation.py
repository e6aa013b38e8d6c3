"""Evaluation worktrees: no idea is measured by code that it edited.

Each worktree used for training has a partner at the campaign's base commit, which contains none of the coding agent's
edits. The Runner recreates it right before the evaluation, after the trainer and all of its child processes have ended.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.blueprint.finding import errors
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.errors import BlueprintError, EnvironmentUnusable
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.worktrees import Slot, slot
from autoresearch.lab.ideas.worktree_paths import environment_in, path_map_in
from autoresearch.lab.resolve.path_mapping import Mapped, map_launch
from autoresearch.lab.resolve.resolved_run import ResolvedRun
from autoresearch.runner.spawn import FOR_EVALUATION

REASON = "where runs are evaluated"


def evaluation_slot(checkout: Checkout, trained_in: Slot) -> Slot:
    """The evaluation worktree that belongs to a training worktree; like that one, it serves one run at a time."""
    number = trained_in.path.name.rpartition("-")[2]
    return slot(checkout, trained_in.path.with_name(f"evaluation-{number}"), reason=REASON)


def make_place(root: Path, path: Path, commit: str, include: Iterable[str]) -> None:
    """Check out exactly the files of a commit at `path`. Raises EnvironmentUnusable if the repository no longer exists.
    """
    checkout = repository.find(root)
    if checkout is None:
        raise EnvironmentUnusable(f"{root} is no repository any more: {repository.why_not(root)}", code="no_repository")
    slot(checkout, path, reason=REASON).switch(commit, include, anew=True)


def evaluated_apart(
    campaign_spec: CampaignSpec, trained_in: Slot, checkout: Checkout, run: ResolvedRun, environ: Mapping[str, str]
) -> tuple[ResolvedRun, tuple[Mapped, ...]]:
    """The run with its evaluation moved to the evaluation worktree, and paths into the user's codebase mapped there.

    Call it before the run itself is mapped. Raises BlueprintError for a path that the base commit does not have.
    """
    if not run.spec.evaluate:
        return run, ()
    slot_here = evaluation_slot(checkout, trained_in)
    linked = campaign_spec.evaluation_inputs
    slot_here.switch(campaign_spec.base_commit, linked)
    path_map = path_map_in(campaign_spec, slot_here, run.options.environment.get("HOME", ""))
    declared = {name: run.options.environment[name] for name in run.resolved.blueprint.notes.env}
    found = [map_launch(command, {}, {}, path_map) for command in run.spec.evaluate]
    around = map_launch("", {}, declared, path_map, inherited=frozenset(declared))
    if bad := errors([finding for one in found for finding in one.findings]):
        raise BlueprintError(f"evaluate: {bad[0].message}", hint=bad[0].hint, code=bad[0].code)
    imports = environment_in(campaign_spec, slot_here, environ)
    own = {**around.environment, **imports, "PYTHONNOUSERSITE": "1", "BASH_ENV": ""}
    marked = {f"{FOR_EVALUATION}{name}": value for name, value in own.items()}
    options = ["--repository", campaign_spec.repository, "--commit", campaign_spec.base_commit]
    options += [word for one in linked for word in ("--include", one)]
    words = [sys.executable, "-P", "-m", "autoresearch", "evaluation-place", str(slot_here.path), *options]
    here = replace(
        run.spec,
        evaluate=tuple(one.command for one in found),
        evaluate_in=str(slot_here.path / campaign_spec.codebase),
        evaluate_place=shlex.join(words),
    )
    mapped = tuple(one for launch in found for one in launch.mapped)
    launch_options = replace(run.options, environment={**run.options.environment, **marked})
    return replace(run, spec=here, options=launch_options), mapped
