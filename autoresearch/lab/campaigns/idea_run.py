"""One run of an idea: its commit, its worktree, its plan, and a Runner that waits for the start signal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.blueprint.finding import errors
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import Idea, IdeaRun, measured
from autoresearch.core.controller.scheduler import CHECKED, RunRequest
from autoresearch.core.statistics.seeding import VARIABLE, SeedWay, copies
from autoresearch.errors import ConflictError, EnvironmentUnusable
from autoresearch.git_repo.worktrees import Slot
from autoresearch.lab import settings as project
from autoresearch.lab.campaigns.commit_builder import BLUEPRINT, CommitBuilder
from autoresearch.lab.campaigns.evaluation import evaluated_apart, evaluation_slot
from autoresearch.lab.campaigns.idea_commit import fields_of, follow_up
from autoresearch.lab.campaigns.worktree_paths import at_home_in, environment_in, proof
from autoresearch.lab.parts import Parts
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve import seeds
from autoresearch.lab.resolve.resolve_run import resolve_run
from autoresearch.lab.resolve.resolved_run import CampaignRun, ResolvedRun, RunOptions
from autoresearch.lab.resolve.run_names import free_name
from autoresearch.lab.runs.launch import prepare
from autoresearch.lab.runs.prepared_run import PreparedRun
from autoresearch.lab.runs.run_sandbox import RunSandbox, writable_paths
from autoresearch.records import journal
from autoresearch.records.failpoint import failpoint
from autoresearch.records.secrets import mask_text

FRESH_SEEDS = 1000  # confirmations use seeds that played no part in the selection


class SharedOutputError(ConflictError):
    """The run would write a file that another run is writing now."""


@dataclass(slots=True)
class Ready:
    """A prepared run in its own worktree, waiting for the start signal."""

    request: RunRequest
    run: IdeaRun
    slot: Slot
    prepared: PreparedRun


def get_ready(
    builder: CommitBuilder, request: RunRequest, slot: Slot, parts: Parts, busy: Mapping[str, str] | None = None
) -> Ready:
    """Commit what is specific to this run, check it out, and start its Runner.

    `busy`: output files of live runs -> the run that writes each. Raises an AutoresearchError if this run cannot be
    made, and SharedOutputError if it cannot be made yet; the idea's commit and branch stay.
    """
    idea, builder = request.idea, builder.for_idea(request.idea.hypothesis)
    spec = builder.spec
    command = builder.command(builder.arguments(idea.commit))
    way = seeds.way_of(builder.trainer, builder.whole(idea.commit), command, builder.blueprint.notes)
    seed = seed_of(request, way.first, repeats=spec.replicates >= CHECKED)
    result_dir = str(Path(spec.result_dir) / request.experiment)
    commit, branch = _commit(builder, request, (way, seed), result_dir)
    failpoint("campaign.committed")
    slot.switch(commit, spec.include)
    settings = project.load(Path(spec.blueprint).parent, environ=parts.environ, flags=_flags(spec))
    campaign_run = CampaignRun(
        campaign=spec.name,
        directory=Path(spec.directory),
        experiment=request.experiment,
        index=idea.index,
        replicate=request.replicate,
        branch=branch,
        commit=commit,
        parent_commit=idea.parent_commit,
        parent_branch=idea.parent_branch,
        why=request.why,
        claims=(*(["simpler"] if idea.simpler else []), *(["smoke"] if idea.hypothesis.smoke else [])),
        timeout_s=spec.timeout_s,
        seed=seed,
        seed_by=str(way),
        fix_of=idea.rows[-1].run_id if request.why == "fix" and idea.rows else "",
        environment=environment_in(spec, slot, parts.environ),
        gpus=(spec.gpus_per_run or None) if all(place.is_local for place in spec.places) else None,
        remote_gpus=spec.gpus_per_run if "gpus_per_run" in spec.sources else None,
    )
    options = RunOptions(trainer=builder.trainer.name, campaign_run=campaign_run)
    resolved_run = resolve_run(slot.path / BLUEPRINT, settings, parts, options)
    resolved_run, apart = evaluated_apart(spec, slot, builder.checkout, resolved_run, parts.environ)
    resolved_run, mapped = at_home_in(builder, slot, resolved_run)
    resolved_run = _in_worktree(builder, slot, resolved_run)
    for source in resolved_run.spec.sources:
        if writer := (busy or {}).get(source.path):
            raise SharedOutputError(f"it would write {source.path}, which {writer} is writing")
    if bad := errors(proof(builder, slot, idea, resolved_run.options.environment)):
        raise EnvironmentUnusable(bad[0].message, hint=bad[0].hint, code=bad[0].code)
    only_here = all(place.is_local for place in spec.places)
    prepared = prepare(resolved_run, parts, ahead=True, runner=only_here)
    remarks = [f"mapped to the worktree: {one.where}: {one.old} -> {one.new}" for one in mapped]
    remarks += [f"mapped to the worktree of the evaluation: {one.old} -> {one.new}" for one in apart]
    for text in remarks:
        journal.append(Path(prepared.spec.result_dir), text)
    run = IdeaRun(
        run=prepared.spec.run,
        run_dir=prepared.spec.run_dir,
        replicate=request.replicate,
        why=request.why,
        commit=commit,
        seed=seed,
    )
    return Ready(request, run, slot, prepared)


def _in_worktree(builder: CommitBuilder, slot: Slot, run: ResolvedRun) -> ResolvedRun:
    spec, options = run.spec, run.options
    return replace(
        run,
        spec=replace(spec, worktree=str(slot.path)),
        options=replace(options, sandbox=sandbox_of(builder, slot, run)),
    )


def sandbox_of(builder: CommitBuilder, slot: Slot, run: ResolvedRun) -> RunSandbox | None:
    """The sandbox for training an idea that an agent may edit; None if no agent is used or the sandbox is off."""
    spec = builder.spec
    if not spec.research.agent or spec.research.sandbox == "off":
        return None
    records = (Path(spec.directory).parent, Path(spec.trees))
    codebase, home = Path(spec.repository), run.options.environment.get("HOME", "/")
    return RunSandbox(
        worktree=slot.path,
        evaluation=evaluation_slot(builder.checkout, slot).path if run.spec.evaluate else None,
        writable=writable_paths(builder.evaluation.writable, codebase, home, records),
    )


def seed_of(request: RunRequest, first: int, *, repeats: bool = True) -> int:
    """The seed of a run: the first run of an idea has the first seed, each further one the next; confirmations fresh
    ones.

    The baseline's second run repeats the first one's seed (`core.statistics.seeding`) as soon as three baseline runs
    are planned (`repeats`), or a third is needed to support a claim.
    """
    idea, n = request.idea, request.replicate
    if request.why == "confirm":
        return first + n - 1 + FRESH_SEEDS
    if not idea.hypothesis.is_baseline:
        return first + n - 1
    again = next((run.seed for run in idea.runs if run.replicate == n and run.seed is not None), None)
    if again is not None:
        return again
    counted = [(run.run, run.seed) for run in idea.runs if run.seed is not None and run.run in _counted(idea)]
    if counted and not copies(counted) and (repeats or len(counted) >= CHECKED - 1):
        return counted[0][1]
    return max((run.seed for run in idea.runs if run.seed is not None and run.why != "confirm"), default=first - 1) + 1


def _counted(idea: Idea) -> set[str]:
    """The runs outside confirmation that have a result, or may still get one."""
    over = idea.done
    judged = {row.run_id for row in idea.judged if measured(row) is not None}
    return {run.run for run in idea.runs if run.why != "confirm" and (run.run in judged or run.run not in over)}


def _commit(
    builder: CommitBuilder, request: RunRequest, seeded: tuple[SeedWay, int], result_dir: str
) -> tuple[str, str]:
    """Commit the idea with this run's seed and output paths as a follow-up commit; the commit and its branch."""
    idea, (way, seed) = request.idea, seeded
    text, arguments = builder.changed(
        idea.commit, _own_settings(builder, request, seeded, result_dir), builder.arguments(idea.commit), new_keys=True
    )
    files: dict[str, bytes | None] = {} if text is None else {builder.recipe_path: text.encode()}
    description = f"Idea {idea.index}, run {request.replicate} ({request.why}), seed {seed} ({way})."
    command = builder.command(arguments)
    if way.kind == "flag":
        command = seeds.with_flag(command, way, seed, builder.trainer)
    fields = fields_of(builder, idea.hypothesis, description, result_dir, command)
    given = {VARIABLE: str(seed), **({way.name: str(seed)} if way.kind == "variable" else {})}
    rendered = render_blueprint(replace(fields, env={**fields.env, **given}))
    files[BLUEPRINT] = mask_text(rendered).encode()
    return follow_up(builder, idea, files, f"{idea.slug}: run {request.replicate}, {request.why}\n")


def _own_settings(
    builder: CommitBuilder, request: RunRequest, seeded: tuple[SeedWay, int], result_dir: str
) -> dict[str, object]:
    """The settings specific to this run. A repeated run never writes to the output paths of an earlier one."""
    recipe = builder.whole(request.idea.commit)
    before = sum(row.replicate == request.replicate for row in request.idea.rows)
    again = f"-{before + 1}" if before else ""
    found: dict[str, object] = {}
    for output in builder.trainer.outputs(recipe):
        place = Path(result_dir) / output.name
        if output.name and place.is_dir():
            place = place.with_name(free_name(place.parent, place.name))
        found[output.key] = str(place) if output.name else f"{builder.spec.name}-{request.experiment}{again}"
    way, seed = seeded
    if way.kind == "key" and way.fixed != seed:
        found[way.name] = seed
    return found


def _flags(spec: CampaignSpec) -> dict[str, str]:
    return {"tmux_socket": spec.tmux_socket, "gpu_check": "" if spec.gpu_check else "no"}
