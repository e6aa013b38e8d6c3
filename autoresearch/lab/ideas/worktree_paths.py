"""Moves a run into its worktree: maps paths into the user's checkout, and makes imports come from the worktree."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, errors
from autoresearch.core.campaign.recipe_edits import diff_recipes
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import Idea
from autoresearch.core.run.swarm import Swarm
from autoresearch.errors import BlueprintError
from autoresearch.git_repo.comparison import changed_paths
from autoresearch.git_repo.worktrees import Slot
from autoresearch.lab.ideas.commit_builder import RECIPE, CommitBuilder
from autoresearch.lab.resolve.import_proof import import_environment, prove_imports
from autoresearch.lab.resolve.path_mapping import Mapped, PathMap, map_launch
from autoresearch.lab.resolve.resolved_run import ResolvedRun
from autoresearch.lab.yaml_files import edit


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
        exists=lambda relative: os.path.lexists(slot.path / relative),
        root=Path(campaign_spec.repository),
        never=(venv, Path(campaign_spec.result_dir), Path(campaign_spec.directory).parent),
        home=home,
    )


def at_home_in(builder: CommitBuilder, slot: Slot, run: ResolvedRun) -> tuple[ResolvedRun, tuple[Mapped, ...]]:
    """The run with every path into the user's codebase mapped to the worktree; the recipe file there is changed, too.

    Raises BlueprintError for a path that the worktree does not have.
    """
    spec = builder.spec
    given = run.options.environment
    declared = {name: given[name] for name in run.resolved.blueprint.notes.env}
    path_map = path_map_in(spec, slot, given.get("HOME", ""))
    recipe_path = slot.path / builder.recipe_path if builder.recipe_path else None
    recipe = run.resolved.recipe_data if recipe_path else {}
    found = map_launch(run.spec.command, recipe, declared, path_map)
    swarm, more = _mapped_swarm(run.spec.swarm, path_map)
    if bad := errors((*found.findings, *more)):
        raise BlueprintError(bad[0].message, hint=bad[0].hint, code=bad[0].code)
    trainer_settings = run.trainer_settings
    if recipe_path and (changes := diff_recipes(recipe, found.recipe)):
        new = {change.key: change.new for change in changes}
        recipe_path.write_text(edit(recipe_path.read_text(), new, name=builder.recipe_path))
        if trainer_settings.copy:  # the trainer reads this copy in place of the file
            path, text = trainer_settings.copy
            trainer_settings = replace(trainer_settings, copy=(path, edit(text, new, name=builder.recipe_path)))
    options = replace(run.options, environment={**given, **found.environment})
    command, mapped = found.command, found.mapped
    if builder.recipe_path == RECIPE and spec.recipe in command:  # use the idea's copy, not the outside file
        command = command.replace(spec.recipe, str(recipe_path))
        mapped = (*mapped, Mapped("command", spec.recipe, str(recipe_path)))
    spec_here = replace(run.spec, command=command, swarm=swarm, recipe_in_commit=builder.recipe_path)
    return replace(run, spec=spec_here, options=options, trainer_settings=trainer_settings), mapped


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
