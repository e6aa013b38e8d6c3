"""Decide everything about a run before anything is written; `--dry-run` prints exactly this.

BlueprintFile -> ResolvedBlueprint -> TrainerSettings -> RunSpec and LaunchOptions, together a ResolvedRun
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.limits import Limits
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.targets import LOCAL, Target
from autoresearch.core.text import naming
from autoresearch.core.text.durations import spoken
from autoresearch.errors import UsageError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote_files import remote_code
from autoresearch.lab.resolve import gpu_check, run_names
from autoresearch.lab.resolve.blueprint_file import read_blueprint
from autoresearch.lab.resolve.files import OURS
from autoresearch.lab.resolve.launch_options import CampaignRun, LaunchOptions, ResolvedRun, RunOptions
from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint, raise_on_errors, resolve_blueprint
from autoresearch.lab.resolve.run_limits import limits_of
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer, raise_on
from autoresearch.lab.settings import Settings
from autoresearch.launchers import gpus, volume
from autoresearch.launchers.host_sandbox_check import driven_by
from autoresearch.records.secrets import mask_environment, mask_text
from autoresearch.trainers import ask, registry


def resolve_run(path: Path, settings: Settings, parts: Parts, run_options: RunOptions) -> ResolvedRun:
    """Read, resolve and check; nothing is written. BlueprintError lists every error with its line."""
    file = read_blueprint(path)
    files = OURS if run_options.campaign_run else remote_code.files_of(file.blueprint, settings, parts)
    try:
        resolved = resolve_blueprint(file, environ=parts.environ, files=files)
        raise_on_errors(resolved)
        return _resolve(resolved, settings, parts, run_options)
    finally:
        if isinstance(files, remote_code.HostFiles):
            files.close()


def _resolve(resolved: ResolvedBlueprint, settings: Settings, parts: Parts, run_options: RunOptions) -> ResolvedRun:
    blueprint, campaign_run, fixed = resolved.blueprint, run_options.campaign_run, run_options.fix_of
    token, created = run_names.new_token(), parts.clock()
    trainer = registry.for_blueprint(
        blueprint, run_options.trainer or blueprint.notes.trainer or settings.text("trainer")
    )
    job = naming.session_name(fixed.slug if fixed else blueprint.slug, token)
    trainer_settings = ask_trainer(trainer, resolved, job=job)
    target = LOCAL if campaign_run else one_target(settings, blueprint.notes.launcher)
    uuids = _gpus(run_options.gpus or settings.text("gpus"), parts) if target.is_local else ()
    environment = _environment(trainer_settings, parts, campaign_run, uuids)
    limits = limits_of(trainer_settings, settings)
    lint = trainer_settings.findings(limits.max_s, environment)
    raise_on(lint)
    options = _options(trainer_settings, settings, target, campaign_run, environment)
    names = _names(resolved, options.checkout, settings, created)
    if fixed:
        names = _names_of_repair(fixed, options.checkout, names.branch)
    spec = _spec(trainer_settings, environment, names, limits, fixed, (token, created))
    spec = ask.server(trainer).with_server(replace(spec, gpus=uuids, driven_by=driven_by(parts.environ)), blueprint)
    if campaign_run:
        spec = _in_campaign(spec, campaign_run)
    if not resolved.files.here:
        spec = remote_code.at_home(spec)
    findings = (
        *(*resolved.findings, *lint, *_unjudged(spec), *_crossed(spec, resolved)),
        *ask.server(trainer).check_server(blueprint),
        *_gpu_findings(trainer_settings, spec, options, settings),
    )
    return ResolvedRun(spec, options, trainer_settings, findings)


def _options(
    trainer_settings: TrainerSettings,
    settings: Settings,
    target: Target,
    campaign_run: CampaignRun | None,
    environment: Mapping[str, str],
) -> LaunchOptions:
    resolved = trainer_settings.resolved
    lone_here = campaign_run is None and resolved.files.here  # otherwise its code is kept by somebody else
    checkout = repository.find(resolved.codebase) if lone_here else None
    needed = trainer_settings.gpus_needed(environment)
    return LaunchOptions(
        environment=environment,
        checkout=checkout,
        no_git=repository.why_not(resolved.codebase) if lone_here and checkout is None else "",
        require_snapshot=settings.text("require_snapshot").lower() in ("yes", "true", "on", "1"),
        tmux_socket=settings.text("tmux_socket"),
        campaign_run=campaign_run,
        target=target,
        remote_gpus=gpu_check.remote_gpus(settings, needed, campaign_run.remote_gpus if campaign_run else None),
        caches=volume.find(settings.text("big_volume"), environment).variables,
    )


def one_target(settings: Settings, note: str = "") -> Target:
    """The target of a single run. Raises UsageError if several are named."""
    targets = settings.targets(note)
    if len(targets) > 1:
        names = ", ".join(target.name for target in targets)
        message = f"a run goes to one target, and {len(targets)} are named: {names}"
        raise UsageError(message, hint="a campaign can use all of them", code="bad_launcher")
    return targets[0]


def _gpu_findings(
    trainer_settings: TrainerSettings, spec: RunSpec, options: LaunchOptions, settings: Settings
) -> tuple[Finding, ...]:
    """Compare the recipe's request with the machine's GPUs; in a campaign, with what the campaign gives the run."""
    trainer, command, environment = trainer_settings.trainer, trainer_settings.command, options.environment
    joins = gpu_check.joins(trainer.name, command, environment) if options.target.is_local else ()
    needed = trainer_settings.gpus_needed(environment)
    given = len(spec.gpus) if options.campaign_run is None else options.campaign_run.gpus
    remote = spec.swarm is not None and not spec.swarm.server  # the engine's GPUs are on its server's machine
    if not needed or given is None or remote or not gpu_check.checks(settings.text("gpu_check")):
        return joins
    request = gpu_check.GpuRequest(needed, given, gpu_check.elsewhere(settings, needed))
    if options.target.is_local:
        return (*request.compared(environment), *joins)
    return request.at(options.target, options.remote_gpus)


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


@dataclass(frozen=True, slots=True)
class _Names:
    """What a run is called, and where its records are."""

    slug: str
    campaign: str
    campaign_dir: Path
    branch: str  # "" without a repository
    parent_commit: str = ""
    parent_branch: str = ""

    @property
    def experiment(self) -> str:
        """The name of its run directory, which nobody has yet."""
        return run_names.free_name(self.campaign_dir, self.slug)


def _names(resolved: ResolvedBlueprint, checkout: Checkout | None, settings: Settings, created: float) -> _Names:
    slug = resolved.blueprint.slug
    root = checkout.root / "reports" if checkout else resolved.result_dir
    if not resolved.files.here:
        root = remote_code.records_root(resolved.path)
    campaign = naming.campaign_name(time.strftime("%Y%m%d", time.localtime(created)), slug)
    campaign = run_names.writable_name(root / "auto_research", campaign)
    campaign_dir = root / "auto_research" / campaign
    if checkout:
        branch = run_names.free_branch(checkout, settings, campaign, slug)
        return _Names(slug, campaign, campaign_dir, branch, checkout.head, checkout.branch)
    # of a remote repository, the host's git checks whether the branch is taken
    branch = "" if resolved.files.here else run_names.branch_in(settings, campaign, slug)
    return _Names(slug, campaign, campaign_dir, branch)


def _names_of_repair(fixed: RunSpec, checkout: Checkout | None, remote_branch: str) -> _Names:
    """A repaired rerun stays in the campaign, and on the branch, of the run that it repairs."""
    campaign_dir = Path(fixed.ledger).parent
    if checkout:
        return _Names(fixed.slug, fixed.campaign, campaign_dir, fixed.branch, fixed.commit, fixed.branch)
    return _Names(fixed.slug, fixed.campaign, campaign_dir, remote_branch)


def _spec(
    trainer_settings: TrainerSettings,
    environment: Mapping[str, str],
    names: _Names,
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
        environment=_recorded(environment, trainer_settings),
    )


def _unjudged(spec: RunSpec) -> tuple[Finding, ...]:
    if spec.objective:
        return ()
    message = f"no metric is named, and the trainer {spec.trainer} has no usual one: the run cannot be judged"
    return (Finding(Severity.WARNING, "no_metric", message, "add `- metric: NAME` to the notes"),)


def _crossed(spec: RunSpec, resolved: ResolvedBlueprint) -> tuple[Finding, ...]:
    """Crossed limits that come from flags and settings; lint reports those of the blueprint."""
    first, whole = spec.limits.first_step_s, spec.limits.max_s
    given = spec.limits.strict_first_step or resolved.blueprint.first_step_given  # an unset default is no request
    if spec.why or first <= whole or not given or any(f.code == "limits_crossed" for f in resolved.findings):
        return ()
    message = f"the first step may take {spoken(first)}, longer than {spoken(whole)} in all: that limit comes first"
    hint = "a shorter --first-step-timeout, or a longer --max-time"
    return (Finding(Severity.WARNING, "limits_crossed", message, hint),)


def _gpus(chosen: str, parts: Parts) -> tuple[str, ...]:
    """UUIDs to lease; a number picks free ones, and the lease itself decides in the Runner."""
    if chosen in ("", "none"):
        return ()
    visible = gpus.visible(gpus.find(), parts.environ)
    busy = {g.uuid for g in visible if gpus.is_leased(g.uuid, parts.environ) or not g.idle}
    return gpus.select(chosen, visible, taken=busy)


def _environment(
    trainer_settings: TrainerSettings, parts: Parts, campaign_run: CampaignRun | None, uuids: tuple[str, ...]
) -> dict[str, str]:
    """The trainer's environment: the caller's, under the campaign's, the blueprint's and the trainer's own."""
    given = {**ask.QUIET, **parts.environ, **(campaign_run.environment if campaign_run else {})}
    env = {k: v for k, v in given.items() if not k.startswith("AUTORESEARCH_RUN_")}
    env |= trainer_settings.resolved.blueprint.notes.env
    if uuids:
        env |= gpus.variables(uuids)
    return env | dict(trainer_settings.environment)


def _recorded(env: Mapping[str, str], trainer_settings: TrainerSettings) -> dict[str, str]:
    """The environment for the record: declared and required variables, the trainer's, and GPUs; secrets masked."""
    notes = trainer_settings.resolved.blueprint.notes
    names = [*notes.env, *notes.requires_env, *trainer_settings.environment, "CUDA_VISIBLE_DEVICES"]
    return mask_environment({n: env[n] for n in names if n in env})
