"""Decide everything about a run before anything is written; `--dry-run` prints exactly this."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.limits import Limits
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.targets import LOCAL, Target
from autoresearch.core.text import naming
from autoresearch.core.text.durations import spoken
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.git_repo import branches
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.agentjet import swarm_setup
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote_files import remote_code
from autoresearch.lab.resolve.files import OURS
from autoresearch.lab.resolve.gpu_check import TOO_FEW, Far, GpuRequest, checks, elsewhere, far_gpus, joins
from autoresearch.lab.resolve.gpu_check import wanted as wanted_gpus
from autoresearch.lab.resolve.preflight import Resolved, raise_on_errors, resolve
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, raise_on, terms
from autoresearch.lab.runs.run_sandbox import RunSandbox
from autoresearch.lab.settings import Settings
from autoresearch.launchers import gpus, volume
from autoresearch.launchers.host_sandbox_check import driven_by
from autoresearch.records.secrets import mask_environment, mask_text
from autoresearch.trainers import ask

ROUTINE = frozenset({"no_explanation", "relative_path"})
TOKEN_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no characters that look alike


@dataclass(frozen=True, slots=True)
class Member:
    """A run's part in its campaign; its code is committed and checked out before planning."""

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
    far_gpus: int | None = None  # requested of a remote target; None: what the recipe asks for


@dataclass(frozen=True, slots=True)
class RunTarget:
    """Where a run goes: to a target, or wherever its campaign sends it."""

    place: Target
    far: Far
    member: Member | None = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of the command line; an empty one means that blueprint or settings decide."""

    trainer: str = ""
    gpus: str = ""
    fix_of: RunSpec | None = None
    member: Member | None = None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run as it will be started."""

    spec: RunSpec
    resolved: Resolved
    terms: TrainerSettings
    checkout: Checkout | None
    no_git: str  # why there is no branch; "" if there is one
    environment: Mapping[str, str]  # the trainer's, unmasked: never written to a record
    findings: tuple[Finding, ...]
    settings: Settings
    member: Member | None = None
    place: Target = LOCAL  # a campaign sets it when it starts the run
    far: Far = field(default_factory=Far)  # GPUs of a remote target
    sandbox: RunSandbox | None = None  # for a local run whose code a coding agent may have edited
    caches: Mapping[str, str] = field(default_factory=dict)  # on this machine's big volume, for a local run

    @property
    def remarks(self) -> tuple[Finding, ...]:
        """The findings to print at every run; routine ones are left to `blueprint check`."""
        return tuple(f for f in self.findings if f.code not in ROUTINE)

    @property
    def first_step_rule(self) -> str:
        """What the limit to the first step will do, in a sentence."""
        return self.spec.limits.first_step_rule(steps_known=ask.steps_known(self.terms.trainer))

    def refuse(self) -> None:
        """Raise an AutoresearchError for whatever prevents the run on this machine now."""
        self.terms.refuse_to_resume()
        raise_on(swarm_setup.only_here(self.terms.trainer.name, self.place))
        if bad := next((f for f in self.findings if f.code == TOO_FEW and f.severity is Severity.ERROR), None):
            raise EnvironmentUnusable(bad.message, hint=bad.hint, code=bad.code)

    @property
    def campaign_dir(self) -> Path:
        """The directory of the ledger, with the run directories beside it."""
        return Path(self.spec.ledger).parent


def make_plan(path: Path, settings: Settings, parts: Parts, wishes: RunOptions) -> RunPlan:
    """Read, resolve and check; nothing is written. BlueprintError lists every error with its line."""
    files = OURS if wishes.member else remote_code.files_of(path, settings, parts)
    try:
        resolved = resolve(path, environ=parts.environ, files=files)
        raise_on_errors(resolved)
        return _plan(resolved, settings, parts, wishes)
    finally:
        if isinstance(files, remote_code.HostFiles):
            files.close()


def _plan(resolved: Resolved, settings: Settings, parts: Parts, wishes: RunOptions) -> RunPlan:
    blueprint, files = resolved.blueprint, resolved.files
    trainer = swarm_setup.trainer_of(blueprint, wishes.trainer or blueprint.notes.trainer or settings.text("trainer"))
    member, slug, token = wishes.member, wishes.fix_of.slug if wishes.fix_of else blueprint.slug, new_token()
    asked = terms(trainer, resolved, job=naming.session_name(slug, token))
    checkout = None if member or not files.here else repository.find(resolved.codebase)
    place = LOCAL if member else one_place(settings, blueprint.notes.launcher)
    uuids = _gpus(wishes.gpus or settings.text("gpus"), parts) if place.is_local else ()
    given = {**parts.environ, **(member.environment if member else {})}
    given = {**ask.QUIET, **given}
    environment = _environment(given, resolved, uuids) | dict(asked.environment)
    lint = asked.findings(limits_of(asked, settings).max_s, environment)
    raise_on(lint)
    spec = swarm_setup.arrange(_spec(asked, checkout, settings, parts, wishes, token), blueprint)
    if member:
        spec = _as_member(spec, member)
    if not files.here:
        spec = remote_code.at_home(spec)
    spec = replace(
        spec,
        gpus=uuids,
        environment=_recorded(environment, asked, uuids),
        driven_by=driven_by(parts.environ),
    )
    count = wanted_gpus(asked.trainer, asked.whole, asked.command, environment)
    where = RunTarget(place, far_gpus(settings, count, member.far_gpus if member else None), member)
    return RunPlan(
        spec=spec,
        resolved=resolved,
        terms=asked,
        checkout=checkout,
        no_git="" if checkout or member or not files.here else repository.why_not(resolved.codebase),
        environment=environment,
        findings=(
            *(*resolved.findings, *lint, *_unjudged(spec), *_crossed(spec, resolved)),
            *swarm_setup.findings(spec, blueprint),
            *_too_few_gpus(count, environment, spec, settings, where),
            *(joins(asked.trainer.name, asked.command, environment) if place.is_local else ()),
        ),
        settings=settings,
        member=member,
        place=place,
        far=where.far,
        caches=volume.find(settings.text("big_volume"), environment).variables,
    )


def one_place(settings: Settings, note: str = "") -> Target:
    """The target of a single run. Raises UsageError if several are named."""
    places = settings.places(note)
    if len(places) > 1:
        names = ", ".join(place.name for place in places)
        message = f"a run goes to one place, and {len(places)} are named: {names}"
        raise UsageError(message, hint="a campaign can use all of them", code="bad_launcher")
    return places[0]


def _too_few_gpus(
    count: int, environment: Mapping[str, str], spec: RunSpec, settings: Settings, where: RunTarget
) -> tuple[Finding, ...]:
    """Compare the recipe's request with the machine's GPUs; a campaign member's with what the campaign gives it."""
    member = where.member
    given = len(spec.gpus) if member is None else member.gpus
    remote = spec.swarm is not None and not spec.swarm.server  # the engine's GPUs are on its server's machine
    if not count or given is None or remote or not checks(settings.text("gpu_check")):
        return ()
    wanted = GpuRequest(count, given, elsewhere(settings, count))
    return wanted.compared(environment) if where.place.is_local else wanted.at(where.place, where.far)


def _as_member(spec: RunSpec, member: Member) -> RunSpec:
    """The same run as part of its campaign: its names, its branch, and the tighter of the two limits."""
    tighter = member.timeout_s is not None and member.timeout_s < spec.limits.max_s
    return replace(
        spec,
        campaign=member.campaign,
        experiment=member.experiment,
        run_dir=str(member.directory / member.experiment),
        ledger=str(member.directory / "results.tsv"),
        index=member.index,
        replicate=member.replicate,
        branch=member.branch,
        commit=member.commit,
        parent_commit=member.parent_commit,
        parent_branch=member.parent_branch,
        claims=member.claims,
        fix_of=member.fix_of,
        why=member.why,
        seed=member.seed,
        seed_by=member.seed_by,
        limits=spec.limits.override(max_s=member.timeout_s) if tighter else spec.limits,
        timed_by="timeout" if tighter else spec.timed_by,
    )


def _spec(
    asked: TrainerSettings,
    checkout: Checkout | None,
    settings: Settings,
    parts: Parts,
    wishes: RunOptions,
    token: str,
) -> RunSpec:
    resolved = asked.resolved
    blueprint = resolved.blueprint
    now = parts.clock()
    fixed = wishes.fix_of
    slug = fixed.slug if fixed else blueprint.slug
    campaign = fixed.campaign if fixed else naming.campaign_name(time.strftime("%Y%m%d", time.localtime(now)), slug)
    root = checkout.root / "reports" if checkout else resolved.result_dir
    if not resolved.files.here:
        root = remote_code.records_root(resolved.path)
    if not fixed:
        campaign = _writable_name(root / "auto_research", campaign)
    campaign_dir = Path(fixed.ledger).parent if fixed else root / "auto_research" / campaign
    experiment = free_name(campaign_dir, slug)
    branch = ""
    if checkout:
        branch = fixed.branch if fixed else _free_branch(checkout, settings, campaign, slug)
    elif not resolved.files.here:  # the host's git checks whether it is taken
        branch = _branch(settings, campaign, slug)
    limits = limits_of(asked, settings)
    most = ask.tighter(asked.trainer, asked.whole, limits.max_s)
    return RunSpec(
        run=naming.run_id(slug, token),
        slug=slug,
        purpose=blueprint.purpose,
        campaign=campaign,
        experiment=experiment,
        index=fixed.index if fixed else 1,
        replicate=fixed.replicate if fixed else 1,
        blueprint=str(resolved.path),
        blueprint_sha=resolved.sha,
        recipe=str(resolved.recipe or ""),
        trainer=asked.trainer.name,
        command=asked.command,
        added=asked.recording.arguments if asked.recording else (),
        cwd=str(resolved.codebase),
        interpreter=str(resolved.interpreter),
        limits=replace(limits, max_s=most),
        timed_by="recipe" if most < limits.max_s else "",
        session=naming.session_name(slug, token),
        run_dir=str(campaign_dir / experiment),
        result_dir=str(resolved.result_dir),
        ledger=str(campaign_dir / "results.tsv"),
        created=now,
        objective=asked.objective,
        branch=branch,
        parent_commit=(fixed.commit if fixed else checkout.head) if checkout else "",
        parent_branch=(fixed.branch if fixed else checkout.branch) if checkout else "",
        fix_of=fixed.run if fixed else "",
        seed=asked.seed,
        seed_by=asked.seed_by,
        lines=blueprint.notes.lines,
        sources=asked.sources,
        signals=asked.trainer.signals(),
        prepare=tuple(blueprint.notes.prepare),
        evaluate=tuple(blueprint.notes.evaluate),
        evaluate_s=blueprint.notes.evaluate_s,
        cleanup=asked.cleanup,
        keep_children=blueprint.notes.keep_children,
        notes=mask_text(blueprint.notes.text),
    )


def _unjudged(spec: RunSpec) -> tuple[Finding, ...]:
    if spec.objective:
        return ()
    message = f"no metric is named, and the trainer {spec.trainer} has no usual one: the run cannot be judged"
    return (Finding(Severity.WARNING, "no_metric", message, "add `- metric: NAME` to the notes"),)


def _crossed(spec: RunSpec, resolved: Resolved) -> tuple[Finding, ...]:
    """Crossed limits that come from flags and settings; lint reports those of the blueprint."""
    first, whole = spec.limits.first_step_s, spec.limits.max_s
    given = spec.limits.strict_first_step or resolved.blueprint.first_step_given  # an unset default is no request
    if spec.why or first <= whole or not given or any(f.code == "limits_crossed" for f in resolved.findings):
        return ()
    message = f"the first step may take {spoken(first)}, longer than {spoken(whole)} in all: that limit comes first"
    hint = "a shorter --first-step-timeout, or a longer --max-time"
    return (Finding(Severity.WARNING, "limits_crossed", message, hint),)


def limits_of(asked: TrainerSettings, settings: Settings) -> Limits:
    """The blueprint's limits, else the project's; a flag overrides both and makes the first step strict.

    If the trainer's steps cannot be recognised, the default limit to the first one counts from the last output.
    """
    blueprint = asked.resolved.blueprint
    from_flag = {n for n, v in settings.values.items() if v.source.startswith("flag")}
    base = Limits(
        first_step_s=blueprint.first_step_s
        if blueprint.first_step_given
        else settings.seconds("first_step_timeout") or Limits().first_step_s,
        max_s=blueprint.max_time_s if blueprint.max_time_given else settings.seconds("max_time") or Limits().max_s,
        stall_s=settings.seconds("stall_timeout"),
        grace_s=_or(settings.seconds("grace"), Limits().grace_s),
        first_step_cap_s=_or(settings.seconds("first_step_cap"), Limits().first_step_cap_s),
        first_step_since_output=not blueprint.first_step_given and not ask.steps_known(asked.trainer),
    )
    return base.override(
        first_step_s=settings.seconds("first_step_timeout") if "first_step_timeout" in from_flag else None,
        max_s=settings.seconds("max_time") if "max_time" in from_flag else None,
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _gpus(wanted: str, parts: Parts) -> tuple[str, ...]:
    """UUIDs to lease; a number picks free ones, and the lease itself decides in the Runner."""
    if wanted in ("", "none"):
        return ()
    found = gpus.visible(gpus.find(), parts.environ)
    busy = {g.uuid for g in found if gpus.is_leased(g.uuid, parts.environ) or not g.idle}
    return gpus.select(wanted, found, taken=busy)


def _branch(settings: Settings, campaign: str, slug: str) -> str:
    prefix = settings.text("prefix").strip("/")
    return f"{prefix}/{campaign}/{slug}" if prefix else naming.branch_name(campaign, slug)


def _free_branch(checkout: Checkout, settings: Settings, campaign: str, slug: str) -> str:
    wanted = _branch(settings, campaign, slug)
    candidate, n = wanted, 1
    while branches.branch_commit(checkout, candidate):
        n += 1
        candidate = f"{wanted}-{n}"
    return candidate


def _environment(environ: Mapping[str, str], resolved: Resolved, uuids: tuple[str, ...]) -> dict[str, str]:
    env = {k: v for k, v in environ.items() if not k.startswith("AUTORESEARCH_RUN_")}
    env.update(resolved.blueprint.notes.env)
    if uuids:
        env.update(gpus.variables(uuids))
    return env


def _recorded(env: Mapping[str, str], asked: TrainerSettings, uuids: tuple[str, ...]) -> dict[str, str]:
    """The environment for the record: declared and required variables, the trainer's, and GPUs; secrets masked."""
    notes = asked.resolved.blueprint.notes
    names = [
        *notes.env,
        *notes.requires_env,
        *asked.environment,
        *(["CUDA_VISIBLE_DEVICES"] if uuids or "CUDA_VISIBLE_DEVICES" in env else []),
    ]
    return mask_environment({n: env[n] for n in names if n in env})


def new_token() -> str:
    """Six random characters that make a run id unique."""
    return "".join(TOKEN_ALPHABET[b % len(TOKEN_ALPHABET)] for b in os.urandom(6))


def free_name(directory: Path, name: str) -> str:
    """`name`, or `name-2`, `name-3` ... where that is taken in a directory."""
    candidate, n = name, 1
    while (directory / candidate).exists():
        n += 1
        candidate = f"{name}-{n}"
    return candidate


def _writable_name(directory: Path, name: str) -> str:
    """`name`, or `name-2` ... if another account that shares the repository has records under it."""
    candidate, n = name, 1
    while _is_anothers(directory / candidate):
        n += 1
        candidate = f"{name}-{n}"
    return candidate


def _is_anothers(directory: Path) -> bool:
    needed = (directory, directory / ".claims", directory / "results.tsv")
    return any(path.exists() and not os.access(path, os.R_OK | os.W_OK) for path in needed)


def key_of(path: Path) -> str:
    """A hash of the blueprint's real path, so that two CLIs lock the same key."""
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
