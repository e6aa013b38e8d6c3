"""Commits what is specific to one run of an idea: its seed, its output paths, its blueprint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.controller.scheduler import CHECKED, RunRequest, seed_of
from autoresearch.core.statistics.seeding import VARIABLE, SeedWay
from autoresearch.lab.ideas.commit_builder import BLUEPRINT, CommitBuilder
from autoresearch.lab.ideas.follow_up import follow_up
from autoresearch.lab.ideas.idea_blueprint import fields_of
from autoresearch.lab.recipes import seeds
from autoresearch.lab.recipes.continuation import settings_from
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.run_names import free_name
from autoresearch.records.secrets import mask_text


@dataclass(frozen=True, slots=True)
class RunCommit:
    """What one run checks out."""

    commit: str
    branch: str
    result_dir: str
    seed: int
    way: SeedWay  # how the seed is passed to the training
    goes_on: str = ""  # of a retry: where it begins, in a sentence


def commit_run(builder: CommitBuilder, run_request: RunRequest) -> RunCommit:
    """Commit an idea with this run's seed and output paths, as a follow-up commit."""
    idea, spec = run_request.idea, builder.spec
    before = builder.arguments(idea.commit)
    launch, whole = builder.launch(idea.commit), builder.whole(idea.commit)
    way = seeds.way_of(builder.trainer, whole, builder.command(before), builder.blueprint.notes, launch)
    seed = seed_of(run_request, way.first, repeats=spec.replicates >= CHECKED)
    result_dir = str(Path(spec.result_dir) / run_request.experiment)
    settings = _own_settings(builder, run_request, (way, seed), result_dir)
    continued, goes_on = _continued(builder, run_request)
    settings |= continued
    in_script = way.kind == "flag" and bool(launch.script_with(way.name))
    changed = builder.changed(idea.commit, settings | ({way.name: seed} if in_script else {}), before, new_keys=True)
    files: dict[str, bytes | None] = {**changed.scripts}
    if changed.recipe is not None:
        files[builder.recipe_path] = changed.recipe.encode()
    description = f"Idea {idea.index}, run {run_request.replicate} ({run_request.why}), seed {seed} ({way})."
    command = builder.command(changed.arguments)
    if way.kind == "flag" and not in_script:
        command = seeds.with_flag(command, way, seed, builder.trainer)
    fields = fields_of(builder, idea.hypothesis, description, result_dir, command)
    given = {VARIABLE: str(seed), **({way.name: str(seed)} if way.kind == "variable" else {})}
    rendered = render_blueprint(replace(fields, env={**fields.env, **given}))
    files[BLUEPRINT] = mask_text(rendered).encode()
    commit, branch = follow_up(builder, idea, files, f"{idea.slug}: run {run_request.replicate}, {run_request.why}\n")
    return RunCommit(commit, branch, result_dir, seed, way, goes_on)


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
    if way.kind == "key" and way.fixed != seed:
        found[way.name] = seed
    return found
