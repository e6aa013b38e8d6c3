"""Decide everything about a run before anything is written; `--dry-run` prints exactly this.

BlueprintFile -> ResolvedBlueprint -> TrainerSettings -> RunSpec and LaunchOptions, together a ResolvedRun
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.targets import LOCAL, Target
from autoresearch.core.text import session_and_branch_names as naming
from autoresearch.errors import AutoresearchError, BlueprintError, ConflictError, EnvironmentUnusable, UsageError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve import host_check
from autoresearch.lab.resolve.host_check import TOO_FEW, RemoteGpus
from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint, read_blueprint, resolve_blueprint
from autoresearch.lab.resolve.run_names import names_of, names_of_repair, new_token
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer, limits_of
from autoresearch.lab.runs import lookup
from autoresearch.lab.settings import Settings
from autoresearch.launchers import gpus
from autoresearch.launchers.gpus import GpuRequest
from autoresearch.launchers.host_sandbox_check import driven_by
from autoresearch.records.rundir import RunDir
from autoresearch.runner.masking import mask_text
from autoresearch.trainers import registry

if TYPE_CHECKING:
    from autoresearch.lab.launch.run_sandbox import RunSandbox


@dataclass(frozen=True, slots=True)
class CampaignRun:
    """What a campaign decides about one of its runs; its code is committed and checked out before."""

    own: Mapping[str, Any]  # fields of its RunSpec: names, as `names_in` makes them, branch, commit, seed ...
    timeout_s: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # overrides the caller's
    gpus: int | None = None  # leased for this run from the campaign's; None: the request was for the campaign
    remote_gpus: int | None = None  # requested of a remote target; None: what the recipe asks for


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a blueprint is to be run, and in which world; an empty option means that blueprint or settings decide."""

    settings: Settings
    parts: Parts
    trainer: str = ""
    fix_of: str = ""  # the run that it repairs
    campaign_run: CampaignRun | None = None
    objective: tuple[str, str] = ("", "")  # metric and direction

    def target(self, note: str) -> Target:
        """Where it goes; a campaign says so when it starts the run. `note`: the blueprint's.

        Raises UsageError if several are named.
        """
        targets = (LOCAL,) if self.campaign_run else self.settings.targets(note)
        if len(targets) > 1:
            names = ", ".join(target.name for target in targets)
            message = f"a run goes to one target, and {len(targets)} are named: {names}"
            raise UsageError(message, hint="a campaign can use all of them", code="bad_launcher")
        return targets[0]


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What a launch needs besides the spec, and what no record holds as it stands."""

    parts: Parts
    environment: Mapping[str, str]  # the trainer's, unmasked: never written to a record
    target: Target  # a campaign sets it when it starts the run
    gpu_request: GpuRequest  # of this machine's GPUs; a campaign may name others at the start
    checkout: Checkout | None = None  # the repository in which the code is kept
    no_git: str = ""  # why there is none; "" if there is one
    tmux_socket: str = ""
    campaign_run: CampaignRun | None = None
    remote_gpus: RemoteGpus = field(default_factory=RemoteGpus)
    sandbox: RunSandbox | None = None  # for a local run whose code a coding agent may have edited


@dataclass(frozen=True, slots=True)
class ResolvedRun:
    """A run as it will be started; `--dry-run` prints exactly this."""

    spec: RunSpec
    options: LaunchOptions
    trainer_settings: TrainerSettings
    findings: tuple[Finding, ...]

    @property
    def resolved(self) -> ResolvedBlueprint:
        """The blueprint that it runs."""
        return self.trainer_settings.resolved

    @property
    def directory(self) -> RunDir:
        """Its run directory."""
        return RunDir(Path(self.spec.run_dir))

    @property
    def campaign_dir(self) -> Path:
        """The directory of the ledger, with the run directories beside it."""
        return Path(self.spec.ledger).parent

    @property
    def result_dir(self) -> Path:
        """Where it writes what people read."""
        return Path(self.spec.result_dir)

    @property
    def first_step_rule(self) -> str:
        """What the limit to the first step will do, in a sentence."""
        return self.spec.limits.first_step_rule(steps_known=self.trainer_settings.steps_known)

    def gpu_findings(self, settings: Settings) -> list[Finding]:
        """Compare the recipe's request with the machine's GPUs; in a campaign, with what the campaign gives the run."""
        asked, options, swarm = self.trainer_settings, self.options, self.spec.swarm
        here, environment = options.target.is_local, options.environment
        found = [*host_check.joins(asked.trainer.name, asked.understood, environment)] if here else []
        needed = asked.gpus_needed(environment)
        given = options.gpu_request.number if options.campaign_run is None else options.campaign_run.gpus
        remote = swarm is not None and not swarm.server  # the engine's GPUs are on its server's machine
        if needed and given is not None and not remote and settings.is_on("gpu_check"):
            if here:
                found += host_check.too_few_here(needed, given, environment)
            else:
                found += host_check.too_few_at(needed, options.target, options.remote_gpus)
        return found

    def refusals(self) -> list[AutoresearchError]:
        """All that prevents the run on this machine now: the blueprint's errors in one, then the others."""
        known = self.resolved.findings
        refusals: list[AutoresearchError] = [BlueprintInvalid(known)] if errors(known) else []
        if conflict := self.trainer_settings.resume_conflict():
            refusals.append(conflict)
        for bad in dict.fromkeys(errors([f for f in self.findings if f not in known])):
            kind = EnvironmentUnusable if bad.code == TOO_FEW else BlueprintError
            refusals.append(kind(bad.message, hint=bad.hint, code=bad.code))
        return refusals

    def refuse(self) -> None:
        """Raise the first of them."""
        if refusals := self.refusals():
            raise refusals[0]


def resolve_run(path: Path, run_options: RunOptions) -> ResolvedRun:
    """Read, resolve and check; nothing is written.

    What is wrong is among the findings, and `ResolvedRun.refuse` raises it. Where they keep the run from being
    resolved, BlueprintInvalid lists them, and what came last.
    """
    fixed = _run_to_repair(run_options.fix_of, path, run_options.parts)
    file, parts = read_blueprint(path).with_objective(*run_options.objective), run_options.parts
    resolved = resolve_blueprint(file, environ=parts.environ)
    try:
        return _resolve(resolved, run_options, fixed)
    except AutoresearchError as error:
        if not errors(resolved.findings):
            raise
        last = Finding(Severity.ERROR, error.code, error.message, error.hint)
        raise BlueprintInvalid([*resolved.findings, last]) from error


def _run_to_repair(name: str, path: Path, parts: Parts) -> RunSpec | None:
    """The run that a rerun of a blueprint repairs; None for no name. NotFoundError, or ConflictError if it cannot."""
    if not name:
        return None
    recorded = lookup.recorded(name, parts)
    spec = recorded.spec
    if recorded.rundir.state().lives:
        raise ConflictError(
            f"{spec.run} still runs; only a run that is over can be repaired",
            fix=f"autoresearch wait {spec.run}",
        )
    if spec.why:
        raise ConflictError(
            f"{spec.run} is a run of the campaign {spec.campaign}, which repairs its ideas itself",
            fix=f"autoresearch explain {spec.run}",
        )
    if Path(spec.blueprint) != path.resolve():
        raise ConflictError(
            f"{spec.run} ran {spec.blueprint}, not {path}: a repair is a rerun of the same blueprint",
            fix=f"autoresearch run {shlex.quote(spec.blueprint)} --fix-of {spec.run}",
        )
    return spec


def _resolve(resolved: ResolvedBlueprint, run_options: RunOptions, fixed: RunSpec | None) -> ResolvedRun:
    settings, notes = run_options.settings, resolved.blueprint.notes
    trainer = registry.for_blueprint(
        resolved.blueprint,
        resolved.shell_reading,
        run_options.trainer or settings.chosen("trainer", notes.trainer),
    )
    token = new_token()
    slug = fixed.slug if fixed else resolved.blueprint.slug
    trainer_settings = ask_trainer(trainer, resolved, job=naming.session_name(slug, token))
    launch_options, server = _launch_options(trainer_settings, run_options), registry.server(trainer)
    spec = server.with_server(_spec(trainer_settings, run_options, launch_options, token, fixed), resolved.blueprint)
    found = [*trainer_settings.findings_of_run()]
    found += server.check_server(resolved.blueprint, (launch_options.target,))
    run = ResolvedRun(spec, launch_options, trainer_settings, tuple(found))
    return replace(run, findings=(*found, *run.gpu_findings(settings)))


def _launch_options(trainer_settings: TrainerSettings, run_options: RunOptions) -> LaunchOptions:
    """The trainer's environment is the caller's, under the campaign's, the blueprint's and the trainer's own."""
    resolved, settings, campaign_run = trainer_settings.resolved, run_options.settings, run_options.campaign_run
    target = run_options.target(resolved.blueprint.notes.launcher)
    environ = run_options.parts.environ
    quiet = {**registry.QUIET, **(resolved.unsynchronised if target.is_local else {})}
    given = {**quiet, **environ, **(campaign_run.environment if campaign_run else {})}
    environment = {k: v for k, v in given.items() if not k.startswith("AUTORESEARCH_RUN_")}
    environment |= resolved.blueprint.notes.env
    located = repository.locate(resolved.codebase) if campaign_run is None else None  # a campaign keeps its own code
    needed = trainer_settings.gpus_needed(environment)
    return LaunchOptions(
        parts=run_options.parts,
        environment=environment,
        target=target,
        gpu_request=gpus.request(settings.text("gpus") if target.is_local else "none", environment),
        checkout=located if isinstance(located, repository.Checkout) else None,
        no_git=str(located) if isinstance(located, repository.NoCheckout) else "",
        tmux_socket=settings.text("tmux_socket"),
        campaign_run=campaign_run,
        remote_gpus=host_check.remote_gpus(settings, needed, campaign_run.remote_gpus if campaign_run else None),
    )


def _spec(
    trainer_settings: TrainerSettings,
    run_options: RunOptions,
    launch_options: LaunchOptions,
    token: str,
    fixed: RunSpec | None,
) -> RunSpec:
    """The spec of a run. `token`: what makes its run id unique."""
    resolved, created = trainer_settings.resolved, run_options.parts.clock()
    blueprint, notes, trainer = resolved.blueprint, resolved.blueprint.notes, trainer_settings.trainer
    checkout, settings, campaign_run = launch_options.checkout, run_options.settings, run_options.campaign_run
    way, slug = trainer_settings.seed_way, fixed.slug if fixed else blueprint.slug
    own: dict[str, Any] = {"seed": way.fixed, "seed_by": "" if way.fixed is None else str(way)}
    if campaign_run:
        own |= campaign_run.own
    else:
        own |= names_of_repair(fixed, checkout) if fixed else names_of(resolved, checkout, settings, created)
    limits, timed_by = limits_of(trainer_settings, settings), ""
    if campaign_run and campaign_run.timeout_s is not None and campaign_run.timeout_s <= limits.max_s:
        limits, timed_by = limits.override(max_s=campaign_run.timeout_s), "timeout"
    return RunSpec(
        run=naming.run_id(slug, token),
        slug=slug,
        purpose=blueprint.purpose,
        blueprint=str(resolved.path),
        blueprint_sha=resolved.file.sha,
        recipe=str(resolved.recipe or ""),
        trainer=trainer.name,
        command=trainer_settings.command,
        cwd=str(resolved.codebase),
        interpreter=str(resolved.interpreter),
        interpreter_source=resolved.interpreter_source,
        limits=limits,
        timed_by=timed_by,
        session=naming.session_name(slug, token),
        result_dir=str(resolved.result_dir),
        created=created,
        objective=trainer_settings.objective,
        constraints=notes.constraint,
        gpus=launch_options.gpu_request.uuids,
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
        environment=resolved.recorded(launch_options.environment),
        **own,
    )
