"""Further commits on the branch of an idea: what is specific to one run (seed, output paths, blueprint), and fixes by a
person or the coding agent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.blueprint.fields import blueprint_like
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CHECKED
from autoresearch.core.campaign.state import SCREEN, Idea
from autoresearch.core.controller.runs_and_retries import RunRequest, seed_of
from autoresearch.core.statistics.seeding import VARIABLE, SeedWay
from autoresearch.errors import AutoresearchError, ConflictError
from autoresearch.git_repo import branches
from autoresearch.git_repo.commits import Change, commit_hypothesis, commit_tree
from autoresearch.git_repo.history import changed_paths
from autoresearch.lab.ideas.commit_builder import ARGUMENTS, BLUEPRINT, OURS, CommitBuilder, IdeaRefused
from autoresearch.lab.ideas.idea_commit import protected_changes
from autoresearch.lab.recipes.overrides import seed_way_of
from autoresearch.lab.recipes.recipe_of_run import settings_from
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.run_names import free_name
from autoresearch.lab.yaml_files import dump
from autoresearch.runner.masking import mask_text


def follow_up(builder: CommitBuilder, idea: Idea, files: Mapping[str, bytes | None], message: str) -> tuple[str, str]:
    """A further commit of an idea, and the branch that it is on. Nothing new is nothing done.

    The branch is the idea's own, unless it was checked out, removed, or other code was committed to it. Then the idea
    gets another branch with a similar name, so that nothing but the idea is run.
    """
    tip = branches.branch_commit(builder.checkout, idea.branch)
    if tip is not None and tip != idea.commit:  # it may differ in the files that are rewritten for each run
        rewritten = {*files, BLUEPRINT, ARGUMENTS, *([builder.recipe_path] if builder.recipe_path else [])}
        if not rewritten.issuperset(changed_paths(builder.checkout, idea.commit, tip)):
            tip = None
    made = commit_hypothesis(builder.checkout, tip or idea.commit, Change(files=files), message=message)
    if tip is not None:
        if made.changes_nothing:
            return tip, idea.branch
        with contextlib.suppress(ConflictError):
            branches.advance_branch(builder.checkout, idea.branch, made.commit, tip)
            return made.commit, idea.branch
    commit = idea.commit if made.changes_nothing else made.commit
    return commit, branches.claim_branch(builder.checkout, idea.branch, commit)


def repair(builder: CommitBuilder, idea: Idea, fix: Hypothesis, note: str) -> str:
    """Commit a follow-up fix on an idea's branch; returns the idea's new commit. Raises IdeaRefused.

    It is made of the idea's own commit, without what its last run wrote into recipe and scripts.
    """
    builder = builder.for_idea(idea.hypothesis)
    try:
        tip = branches.branch_commit(builder.checkout, idea.branch) or idea.commit
        changed = builder.changed(idea.commit, fix.overrides, builder.arguments(idea.commit))
        files: dict[str, bytes | None] = {**changed.scripts}
        if changed.recipe is not None:
            files[builder.recipe_path] = changed.recipe.encode()
        files |= {path: text.encode() for path, text in fix.files.items()}
        if changed.arguments:
            files[ARGUMENTS] = dump(changed.arguments).encode()
        message, change = f"{idea.slug}: follow-up fix\n\n{note}\n", Change(fix.patches, files)
        made = commit_hypothesis(builder.checkout, idea.commit, change, message=message, uncounted=(OURS,))
        if made.changes_nothing and not fix.overrides:
            raise IdeaRefused("it repairs nothing")
        if fix.proposer == AGENT and (touched := protected_changes(builder, idea.commit, made.commit)):
            raise IdeaRefused(f"it changes what is protected: {', '.join(touched[:5])}")
        commit = commit_tree(builder.checkout.git, made.tree, tip, message)
        branches.advance_branch(builder.checkout, idea.branch, commit, tip)
    except IdeaRefused:
        raise
    except AutoresearchError as error:
        raise IdeaRefused(error.message, hint=error.hint, code=error.code) from error
    return commit


@dataclass(frozen=True, slots=True)
class RunCommit:
    """What one run checks out."""

    commit: str
    branch: str
    seed: int
    way: SeedWay  # how the seed is passed to the training
    goes_on: str = ""  # of a retry: where it begins, in a sentence


def commit_run(builder: CommitBuilder, run_request: RunRequest) -> RunCommit:
    """Commit an idea with this run's seed and output paths, as a follow-up commit."""
    idea, spec = run_request.idea, builder.spec
    before = builder.arguments(idea.commit)
    launch, whole = builder.launch(idea.commit), builder.whole(idea.commit)
    way = seed_way_of(replace(launch, command=builder.command(before)), whole, builder.blueprint.notes)
    seed = seed_of(run_request, way.first, repeats=spec.replicates >= CHECKED)
    result_dir = str(Path(spec.result_dir) / run_request.experiment)
    settings = _own_settings(builder, run_request, (way, seed), result_dir)
    continued, goes_on = _continued(builder, run_request)
    settings |= continued
    if run_request.why == SCREEN:  # on a branch of its own: no later run begins with these settings
        settings, idea = {**spec.screen_overrides, **settings}, replace(idea, branch=f"{idea.branch}-{SCREEN}")
    changed = builder.changed(idea.commit, settings, before, new_keys=True)
    files: dict[str, bytes | None] = {**changed.scripts}
    if changed.recipe is not None:
        files[builder.recipe_path] = changed.recipe.encode()
    description = f"Idea {idea.index}, run {run_request.replicate} ({run_request.why}), seed {seed} ({way})."
    command = builder.command(changed.arguments)
    blueprint = builder.blueprint_as(idea.hypothesis, description, command=command, result_dir=result_dir)
    given = {VARIABLE: str(seed), **({way.name: str(seed)} if way.kind == "variable" else {})}
    rendered = render_blueprint(blueprint_like(blueprint, env={**blueprint.notes.env, **given}))
    files[BLUEPRINT] = mask_text(rendered).encode()
    commit, branch = follow_up(builder, idea, files, f"{idea.slug}: run {run_request.replicate}, {run_request.why}\n")
    return RunCommit(commit, branch, seed, way, goes_on)


def _continued(builder: CommitBuilder, run_request: RunRequest) -> tuple[dict[str, object], str]:
    """The settings with which a retry goes on from the run that the machine ended, if `- resume: true` asks for it."""
    ended = run_request.interrupted
    if ended is None or not ended.commit:
        return {}, ""
    if not builder.blueprint.notes.resume:
        return {}, f"the machine ended {ended.run}: tried again from the beginning (no `- resume: true`)"
    settings, checkpoint = settings_from(builder.trainer, builder.whole_of_run(ended.commit))
    if not checkpoint:
        return {}, f"the machine ended {ended.run}, which left no checkpoint: tried again from the beginning"
    return settings, f"the machine ended {ended.run}: goes on from its last checkpoint, {checkpoint}"


def _own_settings(
    builder: CommitBuilder, run_request: RunRequest, seeded: tuple[SeedWay, int], result_dir: str
) -> dict[str, object]:
    """The settings specific to this run. A repeated run never writes to the output paths of an earlier one."""
    recipe = builder.whole(run_request.idea.commit)
    before = sum(row.replicate == run_request.replicate for row in run_request.idea.rows)
    again = f"-{before + 1}" if before else ""
    found: dict[str, object] = {}
    for output in builder.trainer.outputs(recipe):
        path = Path(result_dir) / output.name
        if output.name and path.is_dir():
            path = path.with_name(free_name(path.parent, path.name))
        found[output.key] = str(path) if output.name else f"{builder.spec.name}-{run_request.experiment}{again}"
    way, seed = seeded
    if way.kind == "flag" or (way.kind == "key" and way.fixed != seed):
        found[way.name] = seed
    return found
