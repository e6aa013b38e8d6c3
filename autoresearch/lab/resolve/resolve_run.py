"""Decide everything about a run before anything is written; `--dry-run` prints exactly this.

BlueprintFile -> ResolvedBlueprint -> TrainerSettings -> RunSpec and LaunchOptions, together a ResolvedRun
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.text import session_and_branch_names as naming
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.resolve import host_check
from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint, read_blueprint, resolve_blueprint
from autoresearch.lab.resolve.resolved_run import LaunchOptions, ResolvedRun, RunOptions, limits_of
from autoresearch.lab.resolve.run_names import free_name, names_of, names_of_repair, new_token
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer
from autoresearch.launchers import gpus, host
from autoresearch.launchers.host_sandbox_check import driven_by
from autoresearch.runner.masking import mask_environment, mask_text
from autoresearch.trainers import ask, registry


def resolve_run(path: Path, run_options: RunOptions) -> ResolvedRun:
    """Read, resolve and check; nothing is written.

    What is wrong is among the findings, and `ResolvedRun.refuse` raises it. Where they keep the run from being
    resolved, BlueprintInvalid lists them, and what came last.
    """
    file, parts = read_blueprint(path).with_objective(*run_options.objective), run_options.parts
    resolved = resolve_blueprint(file, environ=parts.environ)
    try:
        return _resolve(resolved, run_options)
    except AutoresearchError as error:
        if not errors(resolved.findings):
            raise
        last = Finding(Severity.ERROR, error.code, error.message, error.hint)
        raise BlueprintInvalid([*resolved.findings, last]) from error


def _resolve(resolved: ResolvedBlueprint, run_options: RunOptions) -> ResolvedRun:
    settings, notes, campaign_run = run_options.settings, resolved.blueprint.notes, run_options.campaign_run
    trainer = registry.for_blueprint(
        resolved.blueprint,
        run_options.trainer or settings.chosen("trainer", notes.trainer),
        shell_reading=resolved.shell_reading,
    )
    token = new_token()
    slug = run_options.fix_of.slug if run_options.fix_of else resolved.blueprint.slug
    trainer_settings = ask_trainer(trainer, resolved, job=naming.session_name(slug, token))
    launch_options = _launch_options(trainer_settings, run_options)
    spec = _spec(trainer_settings, run_options, launch_options, token)
    spec = ask.server(trainer).with_server(spec, resolved.blueprint)
    if campaign_run:
        spec = campaign_run.its_own(spec)
    limits = limits_of(trainer_settings, settings)
    found = trainer_settings.all_findings(limits.max_s, launch_options.environment)
    server = ask.server(trainer).check_server(resolved.blueprint, (launch_options.target,))
    run = ResolvedRun(spec, launch_options, trainer_settings, (*found, *server, *launch_options.leased.findings))
    return replace(run, findings=(*run.findings, *run.crossed_limits(), *run.gpu_findings(settings)))


def _launch_options(trainer_settings: TrainerSettings, run_options: RunOptions) -> LaunchOptions:
    """The trainer's environment is the caller's, under the campaign's, the blueprint's and the trainer's own."""
    resolved, settings, campaign_run = trainer_settings.resolved, run_options.settings, run_options.campaign_run
    target = run_options.target(resolved.blueprint.notes.launcher)
    # of this machine; a number picks free ones, and the lease itself decides in the Runner
    wanted = (run_options.gpus or settings.text("gpus")) if target.is_local else "none"
    leased = gpus.choose(wanted, run_options.parts.environ)
    environ = run_options.parts.environ
    quiet = {**ask.QUIET, **(resolved.unsynchronised if target.is_local else {})}
    given = {**quiet, **environ, **(campaign_run.environment if campaign_run else {})}
    environment = {k: v for k, v in given.items() if not k.startswith("AUTORESEARCH_RUN_")}
    environment |= resolved.blueprint.notes.env
    environment |= leased.variables if leased.uuids else {}
    checkout = repository.find(resolved.codebase) if campaign_run is None else None  # a campaign keeps its own code
    needed = trainer_settings.gpus_needed(environment)
    return LaunchOptions(
        parts=run_options.parts,
        environment=environment,
        target=target,
        leased=leased,
        checkout=checkout,
        no_git=repository.why_not(resolved.codebase) if campaign_run is None and checkout is None else "",
        require_snapshot=settings.is_on("require_snapshot"),
        tmux_socket=settings.text("tmux_socket"),
        campaign_run=campaign_run,
        remote_gpus=host_check.remote_gpus(settings, needed, campaign_run.remote_gpus if campaign_run else None),
        caches=host.find(settings.text("big_volume"), environment).variables,
    )


def _spec(
    trainer_settings: TrainerSettings, run_options: RunOptions, launch_options: LaunchOptions, token: str
) -> RunSpec:
    """The spec of a lone run. `token`: what makes its run id unique."""
    resolved, fixed, created = trainer_settings.resolved, run_options.fix_of, run_options.parts.clock()
    blueprint, notes, trainer = resolved.blueprint, resolved.blueprint.notes, trainer_settings.trainer
    way = trainer_settings.seed_way
    checkout, settings = launch_options.checkout, run_options.settings
    if fixed:
        names = names_of_repair(fixed, resolved, checkout, settings)
    else:
        names = names_of(resolved, checkout, settings, created)
    experiment = free_name(names.campaign_dir, names.slug)
    limits = limits_of(trainer_settings, settings)
    most = ask.tighter(trainer, trainer_settings.whole, limits.max_s)
    return RunSpec(
        run=naming.run_id(names.slug, token),
        slug=names.slug,
        purpose=blueprint.purpose,
        campaign=names.campaign,
        experiment=experiment,
        index=fixed.index if fixed else 1,
        replicate=fixed.replicate if fixed else 1,
        blueprint=str(resolved.path),
        blueprint_sha=resolved.file.sha,
        recipe=str(resolved.recipe or ""),
        trainer=trainer.name,
        command=trainer_settings.command,
        cwd=str(resolved.codebase),
        interpreter=str(resolved.interpreter),
        interpreter_source=resolved.interpreter_source,
        limits=replace(limits, max_s=most),
        timed_by="recipe" if most < limits.max_s else "",
        session=naming.session_name(names.slug, token),
        run_dir=str(names.campaign_dir / experiment),
        result_dir=str(resolved.result_dir),
        ledger=str(names.campaign_dir / "results.tsv"),
        created=created,
        objective=trainer_settings.objective,
        constraints=notes.constraint,
        branch=names.branch,
        parent_commit=names.parent_commit,
        parent_branch=names.parent_branch,
        fix_of=fixed.run if fixed else "",
        seed=way.fixed,
        seed_by="" if way.fixed is None else str(way),
        gpus=launch_options.leased.uuids,
        driven_by=driven_by(run_options.parts.environ),
        lines=notes.lines,
        sources=trainer_settings.sources,
        signals=trainer.signals(),
        prepare=tuple(notes.prepare),
        evaluate=tuple(notes.evaluate),
        evaluate_s=notes.evaluate_s,
        cleanup=trainer_settings.cleanup,
        keep_children=notes.keep_children,
        notes=mask_text(notes.text),
        plugins=registry.PLUGINS.record([trainer.name]),
        environment=_recorded(launch_options.environment, trainer_settings),
    )


def _recorded(env: Mapping[str, str], trainer_settings: TrainerSettings) -> dict[str, str]:
    """The environment for the record: declared and required variables, the trainer's, and GPUs; secrets masked."""
    notes = trainer_settings.resolved.blueprint.notes
    names = [*notes.env, *notes.requires_env, "CUDA_VISIBLE_DEVICES"]
    return mask_environment({n: env[n] for n in names if n in env})
