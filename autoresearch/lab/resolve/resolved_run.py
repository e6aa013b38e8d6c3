"""What is decided about a run before it starts: what its campaign and the command line say, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.core.run.limits import Limits
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.targets import LOCAL, Target
from autoresearch.core.text.durations import spoken
from autoresearch.errors import AutoresearchError, BlueprintError, EnvironmentUnusable, UsageError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve import host_check
from autoresearch.lab.resolve.host_check import TOO_FEW, RemoteGpus
from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint
from autoresearch.lab.resolve.trainer_settings import TrainerSettings
from autoresearch.lab.settings import Settings
from autoresearch.launchers.gpus import GpuChoice
from autoresearch.records.rundir import RunDir
from autoresearch.trainers import ask

if TYPE_CHECKING:
    from autoresearch.lab.launch.run_sandbox import RunSandbox

ROUTINE = frozenset({"no_explanation", "relative_path"})


@dataclass(frozen=True, slots=True)
class CampaignRun:
    """What a campaign decides about one of its runs; its code is committed and checked out before.

    The fields that a RunSpec has too go into it as they are.
    """

    campaign: str
    directory: Path  # of the campaign
    experiment: str
    index: int
    replicate: int
    branch: str
    commit: str
    parent_commit: str
    parent_branch: str
    why: str
    claims: tuple[str, ...] = ()
    timeout_s: float | None = None
    fix_of: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)  # overrides the caller's
    gpus: int | None = None  # leased for this run from the campaign's; None: the request was for the campaign
    seed: int = 0
    seed_by: str = ""
    remote_gpus: int | None = None  # requested of a remote target; None: what the recipe asks for

    def its_own(self, spec: RunSpec) -> RunSpec:
        """The same run as part of its campaign: its names, its branch, and the tighter of the two limits."""
        same = {one.name for one in fields(self)} & {one.name for one in fields(spec)} - {"environment", "gpus"}
        if self.timeout_s is not None and self.timeout_s <= spec.limits.max_s:
            spec = replace(spec, limits=spec.limits.override(max_s=self.timeout_s), timed_by="timeout")
        return replace(
            spec,
            run_dir=str(self.directory / self.experiment),
            ledger=str(self.directory / "results.tsv"),
            **{name: getattr(self, name) for name in same},
        )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a blueprint is to be run, and in which world; an empty option means that blueprint or settings decide."""

    settings: Settings
    parts: Parts
    trainer: str = ""
    gpus: str = ""
    fix_of: RunSpec | None = None
    campaign_run: CampaignRun | None = None
    objective: tuple[str, str] = ("", "")  # metric and direction

    def target(self, note: str) -> Target:
        """Where it goes; a campaign says so when it starts the run. `note`: the blueprint's. Raises UsageError."""
        return LOCAL if self.campaign_run else one_target(self.settings, note)


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What a launch needs besides the spec, and what no record holds as it stands."""

    parts: Parts
    environment: Mapping[str, str]  # the trainer's, unmasked: never written to a record
    target: Target  # a campaign sets it when it starts the run
    leased: GpuChoice  # of this machine's GPUs; a campaign may choose others at the start
    checkout: Checkout | None = None  # the repository in which the code is kept
    no_git: str = ""  # why there is none; "" if there is one
    require_snapshot: bool = False  # refuse the run if its code cannot be kept
    tmux_socket: str = ""
    campaign_run: CampaignRun | None = None
    remote_gpus: RemoteGpus = field(default_factory=RemoteGpus)
    sandbox: RunSandbox | None = None  # for a local run whose code a coding agent may have edited
    caches: Mapping[str, str] = field(default_factory=dict)  # on this machine's big volume, for a local run


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
    def remarks(self) -> tuple[Finding, ...]:
        """The findings to print at every run; routine ones are left to `blueprint check`."""
        return tuple(f for f in self.findings if f.code not in ROUTINE)

    @property
    def first_step_rule(self) -> str:
        """What the limit to the first step will do, in a sentence."""
        return self.spec.limits.first_step_rule(steps_known=ask.steps_known(self.trainer_settings.trainer))

    def crossed_limits(self) -> tuple[Finding, ...]:
        """A limit to the first step that is longer than that in all."""
        limits = self.spec.limits
        given = limits.strict_first_step or self.resolved.blueprint.first_step_given  # an unset default is no request
        if self.spec.why or limits.first_step_s <= limits.max_s or not given:
            return ()
        longer = f"{spoken(limits.first_step_s)}, longer than {spoken(limits.max_s)} in all"
        message = f"the first step may take {longer}: that limit comes first"
        hint = "a shorter --first-step-timeout, or a longer --max-time"
        return (Finding(Severity.WARNING, "limits_crossed", message, hint),)

    def gpu_findings(self, settings: Settings) -> tuple[Finding, ...]:
        """Compare the recipe's request with the machine's GPUs; in a campaign, with what the campaign gives the run."""
        asked, options, swarm = self.trainer_settings, self.options, self.spec.swarm
        here, environment = options.target.is_local, options.environment
        joins = host_check.joins(asked.trainer.name, asked.understood, environment) if here else ()
        needed = asked.gpus_needed(environment)
        given = len(self.spec.gpus) if options.campaign_run is None else options.campaign_run.gpus
        remote = swarm is not None and not swarm.server  # the engine's GPUs are on its server's machine
        if not needed or given is None or remote or not settings.is_on("gpu_check"):
            return joins
        request = host_check.GpuRequest(needed, given, host_check.elsewhere(settings, needed))
        return (*request.compared(environment), *joins) if here else request.at(options.target, options.remote_gpus)

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


def one_target(settings: Settings, note: str = "") -> Target:
    """The target of a single run. Raises UsageError if several are named."""
    targets = settings.targets(note)
    if len(targets) > 1:
        names = ", ".join(target.name for target in targets)
        message = f"a run goes to one target, and {len(targets)} are named: {names}"
        raise UsageError(message, hint="a campaign can use all of them", code="bad_launcher")
    return targets[0]


def limits_of(trainer_settings: TrainerSettings, settings: Settings) -> Limits:
    """The blueprint's limits, else the project's; a flag overrides both and makes the first step strict.

    If the trainer's steps cannot be recognised, the default limit to the first one counts from the last output.
    """
    blueprint, usual = trainer_settings.resolved.blueprint, Limits()

    def project(name: str, default: float) -> float:
        value = settings.seconds(name)
        return default if value is None else value

    first_step_s, max_s = project("first_step_timeout", usual.first_step_s), project("max_time", usual.max_s)
    typed = {n for n, value in settings.values.items() if value.source.startswith("flag")}
    return Limits(
        first_step_s=blueprint.first_step_s if blueprint.first_step_given else first_step_s,
        max_s=blueprint.max_time_s if blueprint.max_time_given else max_s,
        stall_s=settings.seconds("stall_timeout"),
        grace_s=project("grace", usual.grace_s),
        first_step_cap_s=project("first_step_cap", usual.first_step_cap_s),
        first_step_since_output=not blueprint.first_step_given and not trainer_settings.steps_known,
    ).override(
        first_step_s=first_step_s if "first_step_timeout" in typed else None,
        max_s=max_s if "max_time" in typed else None,
    )
