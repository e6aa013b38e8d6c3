"""One run of an idea, ready to be started: its commit, its worktree, its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.blueprint.finding import raise_on
from autoresearch.core.campaign.state import IdeaRun
from autoresearch.core.controller.runs_and_retries import RunRequest
from autoresearch.core.run.extra_paths import Way
from autoresearch.errors import ConflictError, EnvironmentUnusable
from autoresearch.git_repo.worktrees import Slot
from autoresearch.lab import settings as project
from autoresearch.lab.ideas.commit_builder import BLUEPRINT, CommitBuilder
from autoresearch.lab.ideas.run_commit import commit_run
from autoresearch.lab.ideas.worktree_paths import at_home_in, environment_in, evaluated_apart, evaluation_slot, proof
from autoresearch.lab.launch.launch import check
from autoresearch.lab.launch.run_sandbox import RunSandbox, writable_paths
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.resolve_run import CampaignRun, ResolvedRun, RunOptions, resolve_run
from autoresearch.lab.resolve.run_names import names_in
from autoresearch.runner.basics import failpoint


class SharedOutputError(ConflictError):
    """The run would write a file that another run is writing now."""


@dataclass(slots=True)
class Ready:
    """A run in its own worktree that can be started; nothing of it is written elsewhere."""

    request: RunRequest
    run: IdeaRun
    slot: Slot
    resolved: ResolvedRun
    remarks: tuple[str, ...]  # for its experiment log


def get_ready(
    builder: CommitBuilder, run_request: RunRequest, slot: Slot, parts: Parts, busy: Mapping[str, str] | None = None
) -> Ready:
    """Commit what is specific to this run, and check it out.

    `busy`: output files of live runs -> the run that writes each. Raises an AutoresearchError if this run cannot be
    made, and SharedOutputError if it cannot be made yet; the idea's commit and branch stay.
    """
    builder = builder.for_idea(run_request.idea.hypothesis)
    spec = builder.spec
    committed = commit_run(builder, run_request)
    failpoint("campaign.committed")
    slot.switch(committed.commit, spec.shown)
    idea, environment = run_request.idea, environment_in(spec, slot, parts.environ)
    local = all(target.is_local for target in spec.places)
    campaign_run = CampaignRun(
        names_in(
            Path(spec.directory),
            run_request.experiment,
            campaign=spec.name,
            index=idea.index,
            replicate=run_request.replicate,
            branch=committed.branch,
            commit=committed.commit,
            parent_commit=idea.parent_commit,
            parent_branch=idea.parent_branch,
            why=run_request.why,
            seed=committed.seed,
            seed_by=str(committed.way),
            fix_of=idea.rows[-1].run_id if run_request.why == "fix" and idea.rows else "",
        ),
        timeout_s=spec.timeout_s,
        environment=environment,
        gpus=(spec.gpus_per_run or None) if local else None,
        remote_gpus=spec.gpus_per_run if "gpus_per_run" in spec.sources else None,
    )
    flags = {"tmux_socket": spec.tmux_socket, "gpu_check": "" if spec.gpu_check else "no"}
    settings = project.load(Path(spec.blueprint).parent, environ=parts.environ, flags=flags)
    options = RunOptions(settings, parts, trainer=builder.trainer.name, campaign_run=campaign_run)
    resolved_run = resolve_run(slot.path / BLUEPRINT, options)
    resolved_run.refuse()
    resolved_run, apart = evaluated_apart(spec, slot, builder.checkout, resolved_run, parts.environ)
    resolved_run, mapped = at_home_in(builder, slot, resolved_run)
    sandboxed = replace(resolved_run.options, sandbox=_sandbox(builder, slot, resolved_run))
    made_here = replace(resolved_run.spec, worktree=str(slot.path), interpreter_source=spec.interpreter_source)
    resolved_run = replace(resolved_run, spec=made_here, options=sandboxed)
    for source in resolved_run.spec.sources:
        if writer := (busy or {}).get(source.path):
            raise SharedOutputError(f"it would write {source.path}, which {writer} is writing")
    raise_on(proof(builder, slot, idea, resolved_run.options.environment), EnvironmentUnusable)
    check(resolved_run, ahead=True)
    remarks = [f"mapped to the worktree: {one.where}: {one.old} -> {one.new}" for one in mapped]
    remarks += [f"mapped to the worktree of the evaluation: {one.old} -> {one.new}" for one in apart]
    remarks += filter(None, [committed.goes_on])
    made, replicate, why = resolved_run.spec, run_request.replicate, run_request.why
    run = IdeaRun(made.run, made.run_dir, replicate, why, commit=committed.commit, seed=committed.seed)
    return Ready(run_request, run, slot, resolved_run, tuple(remarks))


def _sandbox(builder: CommitBuilder, slot: Slot, resolved_run: ResolvedRun) -> RunSandbox | None:
    """The sandbox for training an idea that an agent may edit; None if no agent is used or the sandbox is off."""
    spec = builder.spec
    if not spec.research.agent or spec.research.sandbox == "off":
        return None
    records = (Path(spec.directory).parent, Path(spec.trees))
    codebase, home = Path(spec.repository), resolved_run.options.environment.get("HOME", "/")
    return RunSandbox(
        worktree=slot.path,
        evaluation=evaluation_slot(builder.checkout, slot).path if resolved_run.spec.evaluate else None,
        writable=writable_paths(builder.evaluation.writable, codebase, home, records),
        hidden=(*map(Path, spec.hidden_inputs), *(codebase / one.path for one in spec.shown if one.way is Way.SECRET)),
        root=codebase,
        shown=spec.evaluation_inputs,
        tmux_socket=spec.tmux_socket,
    )
