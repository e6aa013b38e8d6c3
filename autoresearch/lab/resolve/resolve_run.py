"""Decide everything about a run before anything is written; `--dry-run` prints exactly this.

BlueprintFile -> ResolvedBlueprint -> TrainerSettings -> RunSpec and LaunchOptions, together a ResolvedRun
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.run.limits import Limits
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.targets import LOCAL
from autoresearch.core.text import branch_and_run_names as naming
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote_files import remote_code
from autoresearch.lab.resolve import run_findings
from autoresearch.lab.resolve.blueprint_file import read_blueprint
from autoresearch.lab.resolve.files import OURS
from autoresearch.lab.resolve.launch_options import environment_of, gpus_of, launch_options, one_target
from autoresearch.lab.resolve.resolve_blueprint import (
    ResolvedBlueprint,
    errors_kept,
    raise_on_errors,
    resolve_blueprint,
)
from autoresearch.lab.resolve.resolved_run import CampaignRun, ResolvedRun, RunOptions
from autoresearch.lab.resolve.run_limits import limits_of
from autoresearch.lab.resolve.run_names import RunNames, names_of, names_of_repair, new_token
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer, raise_on
from autoresearch.lab.settings import Settings
from autoresearch.launchers.host_sandbox_check import driven_by
from autoresearch.records.secrets import mask_environment, mask_text
from autoresearch.trainers import ask, registry


def resolve_run(path: Path, settings: Settings, parts: Parts, run_options: RunOptions) -> ResolvedRun:
    """Read, resolve and check; nothing is written. BlueprintError lists every error with its line.

    A plan is resolved in spite of errors, as far as possible: see `ResolvedRun.refusals`.
    """
    file = read_blueprint(path)
    files = OURS if run_options.campaign_run else remote_code.files_of(file.blueprint, settings, parts)
    try:
        resolved = resolve_blueprint(file, environ=parts.environ, files=files)
        if not run_options.plan:
            raise_on_errors(resolved)
        with errors_kept(resolved):
            return _resolve(resolved, settings, parts, run_options)
    finally:
        if isinstance(files, remote_code.HostFiles):
            files.close()


def _resolve(resolved: ResolvedBlueprint, settings: Settings, parts: Parts, run_options: RunOptions) -> ResolvedRun:
    blueprint, campaign_run, fixed = resolved.blueprint, run_options.campaign_run, run_options.fix_of
    token, created = new_token(), parts.clock()
    trainer = registry.for_blueprint(
        blueprint,
        run_options.trainer or blueprint.notes.trainer or settings.text("trainer"),
        shell_reading=resolved.shell_reading,
    )
    job = naming.session_name(fixed.slug if fixed else blueprint.slug, token)
    trainer_settings = ask_trainer(trainer, resolved, job=job)
    target = LOCAL if campaign_run else one_target(settings, blueprint.notes.launcher)
    leased = gpus_of(run_options.gpus or settings.text("gpus"), target, parts)
    environment = environment_of(trainer_settings, parts, campaign_run, leased)
    limits = limits_of(trainer_settings, settings)
    lint = trainer_settings.findings(limits.max_s, environment)
    if not run_options.plan:
        raise_on(lint)
    options = launch_options(trainer_settings, settings, target, campaign_run, environment)
    if fixed:
        names = names_of_repair(fixed, resolved, options.checkout, settings)
    else:
        names = names_of(resolved, options.checkout, settings, created)
    spec = _spec(trainer_settings, environment, names, limits, fixed, (token, created))
    spec = replace(spec, gpus=leased.uuids, driven_by=driven_by(parts.environ))
    spec = ask.server(trainer).with_server(spec, blueprint)
    if campaign_run:
        spec = _in_campaign(spec, campaign_run)
    if not resolved.files.here:
        spec = remote_code.at_home(spec)
    findings = (
        *(*resolved.findings, *lint, *run_findings.unjudged(trainer_settings)),
        *run_findings.crossed_limits(spec, resolved),
        *ask.server(trainer).check_server(blueprint),
        *(*leased.findings, *run_findings.gpu_findings(trainer_settings, spec, options, settings)),
    )
    return ResolvedRun(spec, options, trainer_settings, findings)


def _in_campaign(spec: RunSpec, campaign_run: CampaignRun) -> RunSpec:
    """The same run as part of its campaign: its names, its branch, and the tighter of the two limits."""
    tighter = campaign_run.timeout_s is not None and campaign_run.timeout_s < spec.limits.max_s
    return replace(
        spec,
        campaign=campaign_run.campaign,
        experiment=campaign_run.experiment,
        run_dir=str(campaign_run.directory / campaign_run.experiment),
        ledger=str(campaign_run.directory / "results.tsv"),
        index=campaign_run.index,
        replicate=campaign_run.replicate,
        branch=campaign_run.branch,
        commit=campaign_run.commit,
        parent_commit=campaign_run.parent_commit,
        parent_branch=campaign_run.parent_branch,
        claims=campaign_run.claims,
        fix_of=campaign_run.fix_of,
        why=campaign_run.why,
        seed=campaign_run.seed,
        seed_by=campaign_run.seed_by,
        limits=spec.limits.override(max_s=campaign_run.timeout_s) if tighter else spec.limits,
        timed_by="timeout" if tighter else spec.timed_by,
    )


def _spec(
    trainer_settings: TrainerSettings,
    environment: Mapping[str, str],
    names: RunNames,
    limits: Limits,
    fixed: RunSpec | None,
    stamp: tuple[str, float],
) -> RunSpec:
    """The spec. `stamp`: the token of its run id, and when it was made (wall seconds)."""
    resolved, (token, created) = trainer_settings.resolved, stamp
    blueprint = resolved.blueprint
    most = ask.tighter(trainer_settings.trainer, trainer_settings.whole, limits.max_s)
    return RunSpec(
        run=naming.run_id(names.slug, token),
        slug=names.slug,
        purpose=blueprint.purpose,
        campaign=names.campaign,
        experiment=names.experiment,
        index=fixed.index if fixed else 1,
        replicate=fixed.replicate if fixed else 1,
        blueprint=str(resolved.path),
        blueprint_sha=resolved.file.sha,
        recipe=str(resolved.recipe or ""),
        trainer=trainer_settings.trainer.name,
        command=trainer_settings.command,
        added=trainer_settings.recording.arguments if trainer_settings.recording else (),
        cwd=str(resolved.codebase),
        interpreter=str(resolved.interpreter),
        limits=replace(limits, max_s=most),
        timed_by="recipe" if most < limits.max_s else "",
        session=naming.session_name(names.slug, token),
        run_dir=str(names.campaign_dir / names.experiment),
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
        lines=blueprint.notes.lines,
        sources=trainer_settings.sources,
        signals=trainer_settings.trainer.signals(),
        prepare=tuple(blueprint.notes.prepare),
        evaluate=tuple(blueprint.notes.evaluate),
        evaluate_s=blueprint.notes.evaluate_s,
        cleanup=trainer_settings.cleanup,
        keep_children=blueprint.notes.keep_children,
        notes=mask_text(blueprint.notes.text),
        plugins=registry.PLUGINS.record([trainer_settings.trainer.name]),
        environment=_recorded(environment, trainer_settings),
    )


def _recorded(env: Mapping[str, str], trainer_settings: TrainerSettings) -> dict[str, str]:
    """The environment for the record: declared and required variables, the trainer's, and GPUs; secrets masked."""
    notes = trainer_settings.resolved.blueprint.notes
    names = [*notes.env, *notes.requires_env, *trainer_settings.environment, "CUDA_VISIBLE_DEVICES"]
    return mask_environment({n: env[n] for n in names if n in env})
