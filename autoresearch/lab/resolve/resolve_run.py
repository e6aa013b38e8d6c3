"""Decide everything about a run before anything is written; `--dry-run` prints exactly this.

BlueprintFile -> ResolvedBlueprint -> TrainerSettings -> RunSpec and LaunchOptions, together a ResolvedRun
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.targets import LOCAL, Target
from autoresearch.core.text import branch_and_run_names as naming
from autoresearch.core.text.durations import spoken
from autoresearch.errors import AutoresearchError, UsageError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.remote_files import remote_code
from autoresearch.lab.resolve import gpu_check
from autoresearch.lab.resolve.blueprint_file import read_blueprint
from autoresearch.lab.resolve.files import OURS
from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint, resolve_blueprint
from autoresearch.lab.resolve.resolved_run import LaunchOptions, ResolvedRun, RunOptions
from autoresearch.lab.resolve.run_names import RunNames, free_name, names_of, names_of_repair, new_token
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer
from autoresearch.lab.settings import Settings
from autoresearch.launchers import gpus, volume
from autoresearch.launchers.host_sandbox_check import driven_by
from autoresearch.records.secrets import mask_environment, mask_text
from autoresearch.trainers import ask, registry


def resolve_run(path: Path, options: RunOptions) -> ResolvedRun:
    """Read, resolve and check; nothing is written.

    What is wrong is among the findings, and `ResolvedRun.refuse` raises it. Where they keep the run from being
    resolved, BlueprintInvalid lists them, and what came last.
    """
    file, parts = read_blueprint(path), options.parts
    files = OURS if options.campaign_run else remote_code.files_of(file.blueprint, options.settings, parts)
    with contextlib.closing(files):
        resolved = resolve_blueprint(file, environ=parts.environ, files=files)
        try:
            return _resolve(resolved, options)
        except AutoresearchError as error:
            if not errors(resolved.findings):
                raise
            last = Finding(Severity.ERROR, error.code, error.message, error.hint)
            raise BlueprintInvalid([*resolved.findings, last]) from error


def _resolve(resolved: ResolvedBlueprint, options: RunOptions) -> ResolvedRun:
    settings, notes, campaign_run = options.settings, resolved.blueprint.notes, options.campaign_run
    target = LOCAL if campaign_run else one_target(settings, notes.launcher)
    trainer = registry.for_blueprint(
        resolved.blueprint,
        options.trainer or settings.chosen("trainer", notes.trainer),
        shell_reading=resolved.shell_reading,
    )
    token = new_token()
    slug = options.fix_of.slug if options.fix_of else resolved.blueprint.slug
    trainer_settings = ask_trainer(trainer, resolved, job=naming.session_name(slug, token))
    # of this machine; a number picks free ones, and the lease itself decides in the Runner
    leased = gpus.choose((options.gpus or settings.text("gpus")) if target.is_local else "none", options.parts.environ)
    launch = _launch_options(trainer_settings, options, target, leased)
    spec = _spec(trainer_settings, options, launch, token)
    spec = ask.server(trainer).with_server(replace(spec, gpus=leased.uuids), resolved.blueprint)
    if campaign_run:
        spec = campaign_run.its_own(spec)
    if not resolved.files.here:
        spec = remote_code.at_home(spec)
    findings = (
        *trainer_settings.all_findings(trainer_settings.limits(settings).max_s, launch.environment, (target,)),
        *_crossed_limits(spec, resolved),
        *leased.findings,
        *_gpu_findings(trainer_settings, spec, launch, settings),
    )
    return ResolvedRun(spec, launch, trainer_settings, findings)


def one_target(settings: Settings, note: str = "") -> Target:
    """The target of a single run. Raises UsageError if several are named."""
    targets = settings.targets(note)
    if len(targets) > 1:
        names = ", ".join(target.name for target in targets)
        message = f"a run goes to one target, and {len(targets)} are named: {names}"
        raise UsageError(message, hint="a campaign can use all of them", code="bad_launcher")
    return targets[0]


def _launch_options(
    trainer_settings: TrainerSettings, options: RunOptions, target: Target, leased: gpus.GpuChoice
) -> LaunchOptions:
    """The trainer's environment is the caller's, under the campaign's, the blueprint's and the trainer's own."""
    resolved, settings, campaign_run = trainer_settings.resolved, options.settings, options.campaign_run
    given = {**ask.QUIET, **options.parts.environ, **(campaign_run.environment if campaign_run else {})}
    environment = {k: v for k, v in given.items() if not k.startswith("AUTORESEARCH_RUN_")}
    environment |= resolved.blueprint.notes.env
    environment |= leased.variables if leased.uuids else {}
    environment |= trainer_settings.environment
    lone_here = campaign_run is None and resolved.files.here  # otherwise its code is kept by somebody else
    checkout = repository.find(resolved.codebase) if lone_here else None
    needed = trainer_settings.gpus_needed(environment)
    return LaunchOptions(
        parts=options.parts,
        environment=environment,
        target=target,
        checkout=checkout,
        no_git=repository.why_not(resolved.codebase) if lone_here and checkout is None else "",
        require_snapshot=settings.is_on("require_snapshot"),
        tmux_socket=settings.text("tmux_socket"),
        campaign_run=campaign_run,
        remote_gpus=gpu_check.remote_gpus(settings, needed, campaign_run.remote_gpus if campaign_run else None),
        caches=volume.find(settings.text("big_volume"), environment).variables,
    )


def _names(
    resolved: ResolvedBlueprint, options: RunOptions, launch: LaunchOptions, created: float
) -> RunNames:
    if options.fix_of:
        return names_of_repair(options.fix_of, resolved, launch.checkout, options.settings)
    return names_of(resolved, launch.checkout, options.settings, created)


def _spec(
    trainer_settings: TrainerSettings, options: RunOptions, launch: LaunchOptions, token: str
) -> RunSpec:
    """The spec of a lone run. `token`: what makes its run id unique."""
    resolved, fixed, created = trainer_settings.resolved, options.fix_of, options.parts.clock()
    blueprint, notes, trainer = resolved.blueprint, resolved.blueprint.notes, trainer_settings.trainer
    names = _names(resolved, options, launch, created)
    experiment = free_name(names.campaign_dir, names.slug)
    limits = trainer_settings.limits(options.settings)
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
        added=trainer_settings.recording.arguments if trainer_settings.recording else (),
        cwd=str(resolved.codebase),
        interpreter=str(resolved.interpreter),
        limits=replace(limits, max_s=most),
        timed_by="recipe" if most < limits.max_s else "",
        session=naming.session_name(names.slug, token),
        run_dir=str(names.campaign_dir / experiment),
        result_dir=str(resolved.result_dir),
        ledger=str(names.campaign_dir / "results.tsv"),
        created=created,
        objective=trainer_settings.objective,
        branch=names.branch,
        parent_commit=names.parent_commit,
        parent_branch=names.parent_branch,
        fix_of=fixed.run if fixed else "",
        seed=trainer_settings.seed,
        seed_by=trainer_settings.seed_by,
        driven_by=driven_by(options.parts.environ),
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
        environment=_recorded(launch.environment, trainer_settings),
    )


def _recorded(env: Mapping[str, str], trainer_settings: TrainerSettings) -> dict[str, str]:
    """The environment for the record: declared and required variables, the trainer's, and GPUs; secrets masked."""
    notes = trainer_settings.resolved.blueprint.notes
    names = [*notes.env, *notes.requires_env, *trainer_settings.environment, "CUDA_VISIBLE_DEVICES"]
    return mask_environment({n: env[n] for n in names if n in env})


def _crossed_limits(spec: RunSpec, resolved: ResolvedBlueprint) -> tuple[Finding, ...]:
    """Crossed limits that come from flags and settings; lint reports those of the blueprint."""
    first, whole = spec.limits.first_step_s, spec.limits.max_s
    given = spec.limits.strict_first_step or resolved.blueprint.first_step_given  # an unset default is no request
    if spec.why or first <= whole or not given or any(f.code == "limits_crossed" for f in resolved.findings):
        return ()
    message = f"the first step may take {spoken(first)}, longer than {spoken(whole)} in all: that limit comes first"
    hint = "a shorter --first-step-timeout, or a longer --max-time"
    return (Finding(Severity.WARNING, "limits_crossed", message, hint),)


def _gpu_findings(
    trainer_settings: TrainerSettings, spec: RunSpec, options: LaunchOptions, settings: Settings
) -> tuple[Finding, ...]:
    """Compare the recipe's request with the machine's GPUs; in a campaign, with what the campaign gives the run."""
    trainer, command, environment = trainer_settings.trainer, trainer_settings.understood, options.environment
    joins = gpu_check.joins(trainer.name, command, environment) if options.target.is_local else ()
    needed = trainer_settings.gpus_needed(environment)
    given = len(spec.gpus) if options.campaign_run is None else options.campaign_run.gpus
    remote = spec.swarm is not None and not spec.swarm.server  # the engine's GPUs are on its server's machine
    if not needed or given is None or remote or not settings.is_on("gpu_check"):
        return joins
    request = gpu_check.GpuRequest(needed, given, gpu_check.elsewhere(settings, needed))
    if options.target.is_local:
        return (*request.compared(environment), *joins)
    return request.at(options.target, options.remote_gpus)
