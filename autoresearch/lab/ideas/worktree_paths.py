"""Moves a run into its worktree: maps paths into the user's checkout, and makes imports come from the worktree.

Evaluation worktrees: no idea is measured by code that it edited.

Each worktree used for training has a partner at the campaign's base commit, which contains none of the coding agent's
edits. The Runner recreates it right before the evaluation, after the trainer and all of its child processes have ended.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, raise_on
from autoresearch.core.campaign.recipe_edits import diff_recipes
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import Idea
from autoresearch.core.run.swarm import Swarm
from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.extras import as_mount_points
from autoresearch.git_repo.history import changed_paths
from autoresearch.git_repo.worktrees import Slot, slot
from autoresearch.lab.ideas.commit_builder import RECIPE, CommitBuilder
from autoresearch.lab.resolve.import_proof import import_environment, prove_imports
from autoresearch.lab.resolve.path_mapping import Mapped, PathMap, map_launch
from autoresearch.lab.resolve.resolve_run import ResolvedRun
from autoresearch.lab.yaml_files import edit
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.runner.spawn import FOR_EVALUATION


def environment_in(campaign_spec: CampaignSpec, slot: Slot, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that put the worktree first on the trainer's import path."""
    roots = (campaign_spec.codebase, f"{campaign_spec.codebase}/src") if campaign_spec.codebase else ()
    return {"PYTHONPATH": import_environment(environ, slot.path, roots)["PYTHONPATH"]}


def path_map_in(campaign_spec: CampaignSpec, slot: Slot, home: str) -> PathMap:
    """The path mapping for a campaign's worktree: which directories map to what, and which are never mapped."""
    venv = Path(campaign_spec.interpreter).parents[1]
    return PathMap(
        codebase=Path(campaign_spec.repository) / campaign_spec.codebase,
        worktree=slot.path,
        root=Path(campaign_spec.repository),
        never=(venv, Path(campaign_spec.result_dir), Path(campaign_spec.directory).parent),
        home=home,
    )


def at_home_in(builder: CommitBuilder, slot: Slot, run: ResolvedRun) -> tuple[ResolvedRun, tuple[Mapped, ...]]:
    """The run with every path into the user's codebase mapped to the worktree; the recipe file there is changed, too.

    Raises BlueprintError for a worktree whose path is no word of a shell.
    """
    spec = builder.spec
    given = run.options.environment
    declared = {name: given[name] for name in run.resolved.blueprint.notes.env}
    path_map = path_map_in(spec, slot, given.get("HOME", ""))
    recipe_path = slot.path / builder.recipe_path if builder.recipe_path else None
    recipe = run.resolved.recipe_data if recipe_path else {}
    found = map_launch(run.spec.command, recipe, declared, path_map)
    swarm, more = _mapped_swarm(run.spec.swarm, path_map)
    raise_on((*found.findings, *more))
    if recipe_path and (changes := diff_recipes(recipe, found.recipe)):
        new = {change.key: change.new for change in changes}
        recipe_path.write_text(edit(recipe_path.read_text(), new, name=builder.recipe_path))
    options = replace(run.options, environment={**given, **found.environment})
    command, mapped = found.command, found.mapped
    if builder.recipe_path == RECIPE and spec.recipe in command:  # use the idea's copy, not the outside file
        command = command.replace(spec.recipe, str(recipe_path))
        mapped = (*mapped, Mapped("command", spec.recipe, str(recipe_path)))
    spec_here = replace(run.spec, command=command, swarm=swarm, recipe_in_commit=builder.recipe_path)
    return replace(run, spec=spec_here, options=options), mapped


def _mapped_swarm(swarm: Swarm | None, path_map: PathMap) -> tuple[Swarm | None, tuple[Finding, ...]]:
    """Map the commands of a swarm's server and check like the launch command."""
    if swarm is None:
        return None, ()
    server, debug = (map_launch(command, {}, {}, path_map) for command in (swarm.server, swarm.debug))
    return replace(swarm, server=server.command, debug=debug.command), (*server.findings, *debug.findings)


def proof(builder: CommitBuilder, slot: Slot, idea: Idea, environment: Mapping[str, str]) -> tuple[Finding, ...]:
    """Errors for packages that this idea changes but Python does not import from the worktree (at the idea's commit).
    """
    changed = [path for path in changed_paths(builder.checkout, builder.spec.base_commit, idea.commit) if ".py" in path]
    if not changed:
        return ()
    return prove_imports(Path(builder.spec.interpreter), slot.path, environment, changed)


REASON = "where runs are evaluated"


def evaluation_slot(checkout: Checkout, trained_in: Slot) -> Slot:
    """The evaluation worktree that belongs to a training worktree; like that one, it serves one run at a time."""
    number = trained_in.path.name.rpartition("-")[2]
    return slot(checkout, trained_in.path.with_name(f"evaluation-{number}"), reason=REASON)


def make_place(root: Path, path: Path, commit: str, campaign_dir: CampaignDir, *, bound: bool) -> None:
    """Check out exactly the files of a commit at `path`, beside what the campaign shows to its evaluation.

    bound: a sandbox binds that there.

    Raises EnvironmentUnusable if the repository no longer exists.
    """
    checkout = repository.locate(root)
    if isinstance(checkout, repository.NoCheckout):
        raise EnvironmentUnusable(f"{root} is no repository any more: {checkout}", code="no_repository")
    shown = campaign_records.read_spec(campaign_dir).evaluation_inputs
    slot(checkout, path, reason=REASON).switch(commit, shown, anew=True)
    if bound:
        as_mount_points(root, path, shown)


def evaluated_apart(
    campaign_spec: CampaignSpec, trained_in: Slot, checkout: Checkout, run: ResolvedRun, environ: Mapping[str, str]
) -> tuple[ResolvedRun, tuple[Mapped, ...]]:
    """The run with its evaluation moved to the evaluation worktree, and paths into the user's codebase mapped there.

    Call it before the run itself is mapped. Raises BlueprintError as `at_home_in`.
    """
    if not run.spec.evaluate:
        return run, ()
    slot_here = evaluation_slot(checkout, trained_in)
    slot_here.switch(campaign_spec.base_commit, campaign_spec.evaluation_inputs)
    path_map = path_map_in(campaign_spec, slot_here, run.options.environment.get("HOME", ""))
    declared = {name: run.options.environment[name] for name in run.resolved.blueprint.notes.env}
    found = [map_launch(command, {}, {}, path_map) for command in run.spec.evaluate]
    around = map_launch("", {}, declared, path_map)
    raise_on([finding for one in found for finding in one.findings], start="evaluate: ")
    imports = environment_in(campaign_spec, slot_here, environ)
    own = {**around.environment, **imports, "PYTHONNOUSERSITE": "1", "BASH_ENV": ""}
    marked = {f"{FOR_EVALUATION}{name}": value for name, value in own.items()}
    options = ["--repository", campaign_spec.repository, "--commit", campaign_spec.base_commit]
    options += ["--campaign", campaign_spec.directory]
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
