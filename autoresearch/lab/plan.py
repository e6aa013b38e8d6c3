"""Decide everything about a run before anything is touched; `--dry-run` prints exactly this."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoresearch.core import naming
from autoresearch.core.durations import spoken
from autoresearch.core.finding import Finding, Severity
from autoresearch.core.limits import Limits
from autoresearch.core.objective import Direction, Objective
from autoresearch.core.run import RunSpec
from autoresearch.core.trainer import Source, Trainer
from autoresearch.errors import BlueprintError
from autoresearch.lab.parts import Parts
from autoresearch.lab.preflight import Resolved, raise_on_errors, resolve
from autoresearch.lab.settings import Settings
from autoresearch.lab.swarm import arrange
from autoresearch.launchers import gpus
from autoresearch.launchers.sandbox import driven_by
from autoresearch.records.secrets import mask_environment, mask_text
from autoresearch.repository import branches
from autoresearch.repository import checkout as repository
from autoresearch.repository.checkout import Checkout
from autoresearch.trainers import registry

ROUTINE = frozenset({"no_explanation", "relative_path"})
TOKEN_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # nothing that is read as something else


@dataclass(frozen=True, slots=True)
class Member:
    """A run's place in its campaign, whose code was committed and checked out before it is planned."""

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
    environment: Mapping[str, str] = field(default_factory=dict)  # over the caller's


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks for, beyond the blueprint; empty means: as the blueprint or settings say."""

    trainer: str = ""
    gpus: str = ""
    fix_of: RunSpec | None = None
    member: Member | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A run as it will be started."""

    spec: RunSpec
    resolved: Resolved
    checkout: Checkout | None
    no_git: str  # why there is no branch; "" if there is one
    environment: Mapping[str, str]  # the trainer's, unmasked: never written to a record
    findings: tuple[Finding, ...]
    settings: Settings
    member: Member | None = None

    @property
    def remarks(self) -> tuple[Finding, ...]:
        """The findings worth saying at every run; the routine ones are for `blueprint check`."""
        return tuple(f for f in self.findings if f.code not in ROUTINE)

    @property
    def campaign_dir(self) -> Path:
        """Where the ledger lies, with the run directories beside it."""
        return Path(self.spec.ledger).parent


def make_plan(path: Path, settings: Settings, parts: Parts, wishes: Wishes) -> Plan:
    """Read, resolve and check; nothing is written. BlueprintError lists every error with its line."""
    resolved = resolve(path, environ=parts.environ)
    raise_on_errors(resolved)
    blueprint = resolved.blueprint
    trainer = registry.choose(
        wishes.trainer
        or blueprint.notes.trainer
        or settings.text("trainer")
        or arrange.trainer_name(blueprint),
        blueprint.launch_command,
    )
    lint = trainer.lint(resolved.recipe_data)
    bad = [f for f in lint if f.severity is Severity.ERROR]
    if bad:
        raise BlueprintError(bad[0].message, hint=bad[0].hint)
    member = wishes.member
    checkout = None if member else repository.find(resolved.codebase)
    uuids = _gpus(wishes.gpus or settings.text("gpus"), parts)
    environment = _environment({**parts.environ, **(member.environment if member else {})}, resolved, uuids)
    spec = arrange.arrange(_spec(resolved, trainer, checkout, settings, parts, wishes), blueprint)
    if member:
        spec = _as_member(spec, member)
    spec = replace(
        spec,
        gpus=uuids,
        environment=_recorded(environment, resolved, uuids),
        driven_by=driven_by(parts.environ),
    )
    return Plan(
        spec=spec,
        resolved=resolved,
        checkout=checkout,
        no_git="" if checkout or member else repository.why_not(resolved.codebase),
        environment=environment,
        findings=(
            *(*resolved.findings, *lint, *_unjudged(spec), *_crossed(spec, resolved)),
            *arrange.findings(spec, blueprint),
        ),
        settings=settings,
        member=member,
    )


def _as_member(spec: RunSpec, member: Member) -> RunSpec:
    """The same run under its campaign: its names, its branch, and the tighter of the two limits."""
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
        limits=spec.limits.override(max_s=member.timeout_s) if tighter else spec.limits,
        timed_by="timeout" if tighter else "",
    )


def _spec(
    resolved: Resolved,
    trainer: Trainer,
    checkout: Checkout | None,
    settings: Settings,
    parts: Parts,
    wishes: Wishes,
) -> RunSpec:
    blueprint = resolved.blueprint
    token = new_token()
    now = parts.clock()
    fixed = wishes.fix_of
    slug = fixed.slug if fixed else blueprint.slug
    campaign = fixed.campaign if fixed else naming.campaign_name(time.strftime("%Y%m%d", time.localtime(now)), slug)
    root = checkout.root / "reports" if checkout else resolved.result_dir
    campaign_dir = Path(fixed.ledger).parent if fixed else root / "auto_research" / campaign
    experiment = free_name(campaign_dir, slug)
    branch = ""
    if checkout:
        branch = fixed.branch if fixed else _free_branch(checkout, settings, campaign, slug)
    sources = tuple(replace(s, path=str((resolved.codebase / s.path).absolute())) for s in _sources(trainer, resolved))
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
        trainer=trainer.name,
        command=blueprint.launch_command,
        cwd=str(resolved.codebase),
        interpreter=str(resolved.interpreter),
        limits=limits_of(resolved, settings),
        session=naming.session_name(slug, token),
        run_dir=str(campaign_dir / experiment),
        result_dir=str(resolved.result_dir),
        ledger=str(campaign_dir / "results.tsv"),
        created=now,
        objective=_objective(trainer, resolved),
        branch=branch,
        parent_commit=(fixed.commit if fixed else checkout.head) if checkout else "",
        parent_branch=(fixed.branch if fixed else checkout.branch) if checkout else "",
        fix_of=fixed.run if fixed else "",
        seed=trainer.seed(resolved.recipe_data),
        sources=sources,
        signals=trainer.signals(),
        prepare=tuple(blueprint.notes.prepare),
        cleanup=tuple(blueprint.notes.cleanup),
        keep_children=blueprint.notes.keep_children,
        notes=mask_text(blueprint.notes.text),
    )


def _unjudged(spec: RunSpec) -> tuple[Finding, ...]:
    if spec.objective:
        return ()
    message = f"no metric is named, and the trainer {spec.trainer} has no usual one: the run cannot be judged"
    return (Finding(Severity.WARNING, "no_metric", message, "add `- metric: NAME` to the notes"),)


def _crossed(spec: RunSpec, resolved: Resolved) -> tuple[Finding, ...]:
    """Flags and settings may cross the two limits as well as a blueprint, which its lint has said."""
    first, whole = spec.limits.first_step_s, spec.limits.max_s
    given = spec.limits.strict_first_step or resolved.blueprint.first_step_given  # the default means nothing
    if spec.why or first <= whole or not given or any(f.code == "limits_crossed" for f in resolved.findings):
        return ()
    message = f"the first step may take {spoken(first)}, longer than {spoken(whole)} in all: that limit comes first"
    hint = "a shorter --first-step-timeout, or a longer --max-time"
    return (Finding(Severity.WARNING, "limits_crossed", message, hint),)


def limits_of(resolved: Resolved, settings: Settings) -> Limits:
    """The blueprint's limits, else the project's; a flag wins over both and makes the first step strict."""
    blueprint = resolved.blueprint
    from_flag = {n for n, v in settings.values.items() if v.source.startswith("flag")}
    base = Limits(
        first_step_s=blueprint.first_step_s
        if blueprint.first_step_given
        else settings.seconds("first_step_timeout") or Limits().first_step_s,
        max_s=blueprint.max_time_s if blueprint.max_time_given else settings.seconds("max_time") or Limits().max_s,
        stall_s=settings.seconds("stall_timeout"),
        grace_s=_or(settings.seconds("grace"), Limits().grace_s),
        first_step_cap_s=_or(settings.seconds("first_step_cap"), Limits().first_step_cap_s),
    )
    return base.override(
        first_step_s=settings.seconds("first_step_timeout") if "first_step_timeout" in from_flag else None,
        max_s=settings.seconds("max_time") if "max_time" in from_flag else None,
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _objective(trainer: Trainer, resolved: Resolved) -> Objective | None:
    notes = resolved.blueprint.notes
    usual = trainer.objective(resolved.recipe_data)
    if not notes.metric:
        return usual
    if notes.direction:
        try:
            return Objective(notes.metric, Direction(_DIRECTIONS.get(notes.direction.lower(), notes.direction.lower())))
        except ValueError:
            raise BlueprintError(
                f"{resolved.path}: direction {notes.direction!r} is neither maximize nor minimize"
            ) from None
    if usual and usual.metric == notes.metric:
        return usual
    return Objective(notes.metric, Direction.MINIMIZE if "loss" in notes.metric else Direction.MAXIMIZE)


_DIRECTIONS = {
    "max": "maximize",
    "min": "minimize",
    "up": "maximize",
    "down": "minimize",
    "higher": "maximize",
    "lower": "minimize",
}


def _gpus(wanted: str, parts: Parts) -> tuple[str, ...]:
    """UUIDs to lease; a number picks free ones, and the lease itself decides in the Runner."""
    if wanted in ("", "none"):
        return ()
    found = gpus.visible(gpus.find(), parts.environ)
    busy = {g.uuid for g in found if gpus.is_leased(g.uuid, parts.environ) or not g.idle}
    return gpus.select(wanted, found, taken=busy)


def _sources(trainer: Trainer, resolved: Resolved) -> tuple[Source, ...]:
    """Declared files first, then those that the trainer is known to write."""
    declared = resolved.blueprint.notes.source
    known = trainer.sources(resolved.recipe_data)
    return (*declared, *(s for s in known if s.path not in {d.path for d in declared}))


def _free_branch(checkout: Checkout, settings: Settings, campaign: str, slug: str) -> str:
    prefix = settings.text("prefix").strip("/")
    wanted = naming.branch_name(campaign, slug)
    if prefix:
        wanted = f"{prefix}/{campaign}/{slug}"
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


def _recorded(env: Mapping[str, str], resolved: Resolved, uuids: tuple[str, ...]) -> dict[str, str]:
    """What the record holds: declared and required variables and the GPUs, secrets masked."""
    notes = resolved.blueprint.notes
    names = [
        *notes.env,
        *notes.requires_env,
        *(["CUDA_VISIBLE_DEVICES"] if uuids or "CUDA_VISIBLE_DEVICES" in env else []),
    ]
    return mask_environment({n: env[n] for n in names if n in env})


def new_token() -> str:
    """Six characters that make a run unique."""
    return "".join(TOKEN_ALPHABET[b % len(TOKEN_ALPHABET)] for b in os.urandom(6))


def free_name(directory: Path, name: str) -> str:
    """`name`, or `name-2`, `name-3` ... where that is taken in a directory."""
    candidate, n = name, 1
    while (directory / candidate).exists():
        n += 1
        candidate = f"{name}-{n}"
    return candidate


def key_of(path: Path) -> str:
    """What two CLIs on one blueprint agree on: a hash of its real path."""
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
