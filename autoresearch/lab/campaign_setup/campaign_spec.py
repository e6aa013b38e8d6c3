"""From a campaign file to a CampaignSpec, and the plan that a person agrees to; nothing is changed here."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.campaign.spec import CampaignSpec, ProposerSpec, Rules, parse_target
from autoresearch.core.campaign.stop_rules import span
from autoresearch.core.metrics.expression_parser import EXPRESSIONS, ExpressionError
from autoresearch.core.metrics.objective import Direction, Objective, usual_direction
from autoresearch.core.run.trainer import Trainer
from autoresearch.core.text import naming
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout, NoCheckout
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.git_repo.survey import survey
from autoresearch.lab.agent_work.agent_proposer import HYBRID
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaign_setup.agent_options import research_spec
from autoresearch.lab.campaign_setup.campaign_options import CampaignFile
from autoresearch.lab.campaign_setup.run_targets import gpu_terms, where
from autoresearch.lab.campaigns.idea_sources import OPTIMISER
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote_files.remote_code import refuse_in_campaign
from autoresearch.lab.resolve.blueprint_file import read_blueprint
from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint, raise_on_errors, resolve_blueprint
from autoresearch.lab.resolve.run_limits import limits_of
from autoresearch.lab.resolve.run_names import key_of
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer, raise_on
from autoresearch.lab.runs.snapshot_code import masked_files
from autoresearch.lab.settings import Settings
from autoresearch.lab.settings import load as load_settings
from autoresearch.proposers.registry import check_packages
from autoresearch.records.index import state_home
from autoresearch.records.secrets import MASK, mask_text, mask_values
from autoresearch.runner.text import plain
from autoresearch.trainers import ask, ray_job, registry

UNRULED_IDEAS = 4  # no stop rule given: the baseline and three ideas, then a question


@dataclass(frozen=True, slots=True)
class Charter:
    """A campaign as it would be started; `spec.base_commit` is "" until it is."""

    spec: CampaignSpec
    campaign_file: CampaignFile
    resolved: ResolvedBlueprint
    checkout: Checkout
    trainer: Trainer
    terms: TrainerSettings
    findings: tuple[Finding, ...]
    dirty: tuple[str, ...]  # what the base would hold beyond HEAD
    first_step_rule: str  # what the limit to the first step will do in each run


def _no_repository(found: NoCheckout) -> EnvironmentUnusable:
    instead = f"{found.remedy}, or " if found.remedy else ""
    return EnvironmentUnusable(
        f"a campaign keeps every idea on a branch, and {found.reason}",
        hint=f"{instead}run single blueprints with `autoresearch run`",
        fix=found.fix,
        code="no_repository",
    )


def charter(
    campaign_file: CampaignFile,
    parts: Parts,
    *,
    tmux_socket: str = "",
    gpu_check: bool = True,
    project: Settings | None = None,
) -> Charter:
    """Decide everything. Raises UsageError, BlueprintError or EnvironmentUnusable with one sentence."""
    resolved = resolve_blueprint(read_blueprint(campaign_file.blueprint), environ=parts.environ)
    project = project or load_settings(campaign_file.blueprint.parent, environ=parts.environ)
    room = where(campaign_file, project, resolved.blueprint.notes.launcher)
    refuse_in_campaign(room.places)
    raise_on_errors(resolved)
    trainer = registry.for_blueprint(resolved.blueprint)
    checkout = repository.locate(resolved.codebase)
    if isinstance(checkout, NoCheckout):
        raise _no_repository(checkout)
    if not checkout.head:
        raise EnvironmentUnusable(
            f"the repository {checkout.root} has no commit yet",
            fix="git add -A && git commit -m start",
            code="no_commit",
        )
    asked = ask_trainer(trainer, resolved, job="ajet_campaign")
    lint = (
        *asked.findings(min(campaign_file["timeout"] or math.inf, resolved.blueprint.max_time_s), parts.environ),
        *_one_name_for_all(resolved.blueprint.launch_command),
    )
    raise_on(lint)
    asked.refuse_seed()
    objective, said = _objective(campaign_file, asked)
    sources = {**campaign_file.sources, **said}
    rules = _rules(campaign_file, objective, parts.clock())
    if not rules.given:
        rules = replace(rules, count=UNRULED_IDEAS)
        sources["count"] = "no stop rule was given: the baseline and three ideas, then a question"
    if room.source != "built-in":
        sources["launcher"] = room.source
    looks = campaign_file["gpu_check"] and gpu_check
    share = gpu_terms(campaign_file, room, _gpus_wanted(asked, parts) if looks else 0, parts)
    spec = _spec(campaign_file, asked, checkout, objective, rules, parts)
    spec = replace(spec, sources=sources | _proposer_source(campaign_file), tmux_socket=tmux_socket, gpu_check=looks)
    spec = replace(spec, places=room.places, parallel=room.parallel, gpus=share.uuids, gpus_per_run=share.per_run)
    raise_on(ask.server(trainer).check_server(resolved.blueprint, spec.places, spec.parallel))
    raise_on(_secrets(spec, resolved))
    findings = (*resolved.findings, *lint, *_promise(spec), *_seen_in_prints(spec, resolved))
    environ = {**parts.environ, **resolved.blueprint.notes.env}
    findings += (*share.findings(room, project, environ), *_agent(spec, resolved, parts))
    findings += room.checked(parts, resolved.interpreter, prepared=bool(resolved.blueprint.notes.prepare))
    dirty = _dirty(checkout, spec, campaign_file)
    rule = limits_of(asked, project).first_step_rule(steps_known=ask.steps_known(trainer))
    spec = campaign_registry.with_own_results(spec, parts)
    return Charter(spec, campaign_file, resolved, checkout, trainer, asked, findings, dirty, rule)


def _agent(spec: CampaignSpec, resolved: ResolvedBlueprint, parts: Parts) -> tuple[Finding, ...]:
    """Whether the researcher can be asked here, and how it is confined. Raises UsageError, EnvironmentUnusable."""
    asks = [f"the proposer {spec.proposer.name}"] if spec.proposer.name in (AGENT, HYBRID) else []
    budgets = (("budget usd", spec.rules.budget_usd), ("budget tokens", spec.rules.budget_tokens))
    asks += [name for name, value in budgets if value is not None]
    if not (spec.research.agent or asks):
        return ()
    from autoresearch.lab.agents import agent_factory  # `campaign status` imports this file, and asks nobody
    from autoresearch.lab.agents.agent_sandbox import Level

    if not spec.research.agent:
        raise UsageError(
            f"{asks[0]} is about a coding agent, and none is named",
            hint=f"--agent NAME; installed: {', '.join(agent_factory.installed(parts.environ)) or 'none that we know'}",
            code="no_agent",
        )
    level = agent_factory.check(spec.research, parts.environ, usd=spec.rules.budget_usd is not None)
    weak = (Finding(Severity.WARNING, "confinement", level.sentence),) if level is not Level.BUBBLEWRAP else ()
    return (*weak, *_sandbox(spec, resolved, parts))


def _sandbox(spec: CampaignSpec, resolved: ResolvedBlueprint, parts: Parts) -> tuple[Finding, ...]:
    """Where what a researcher edits trains outside of a sandbox, and what that means."""
    from autoresearch.lab.runs.run_sandbox import why_no_sandbox, writable_paths

    notes, command = resolved.blueprint.notes, resolved.blueprint.launch_command
    records, home = (Path(spec.directory).parent, Path(spec.trees)), parts.environ.get("HOME", "/")
    writable_paths(notes.writable, Path(spec.repository), home, records)
    far = [place.name for place in spec.places if not place.is_local]
    why = "the setting `sandbox` is off" if spec.research.sandbox == "off" else ""
    why = why or why_no_sandbox(notes, command, {**parts.environ, **notes.env})
    why = why or (f"runs go to {', '.join(far)}" if far else "")
    if why and spec.research.sandbox == "need":
        raise EnvironmentUnusable(
            f"a sandbox is needed, and training cannot have one: {why}",
            hint="go without by `--set sandbox=auto`: claims about edited code then say `not sandboxed`",
            code="no_sandbox",
        )
    message = f"what the researcher edits trains without a sandbox ({why}): it can write wherever you can"
    hint = "claims about it read `confirmed (not sandboxed)`; docs/evaluation.md says what is found all the same"
    return (Finding(Severity.WARNING, "not_sandboxed", message, hint),) if why else ()


def _seen_in_prints(spec: CampaignSpec, resolved: ResolvedBlueprint) -> tuple[Finding, ...]:
    if not (spec.prune and resolved.blueprint.notes.evaluate):
        return ()
    message = "early stopping looks at what the training prints, not at the evaluation, which comes after it"
    return (Finding(Severity.WARNING, "pruned_by_prints", message),)


def _gpus_wanted(asked: TrainerSettings, parts: Parts) -> int:
    """How many GPUs the recipe asks for; 0 where it says nothing, or has them elsewhere."""
    if ask.server(asked.trainer).server_elsewhere(asked.resolved.blueprint.notes):
        return 0
    environ = {**parts.environ, **asked.resolved.blueprint.notes.env}
    return asked.gpus_needed(environ)


def _one_name_for_all(command: str) -> tuple[Finding, ...]:
    job = ray_job.find(command)
    if job is None or not job.submission_id:
        return ()
    message = f"every run would submit the Ray job {job.submission_id}, and Ray takes a name only once"
    hint = "take --submission-id out: each run gets one of its own"
    return (Finding(Severity.ERROR, "ray_job_named_for_all", message, hint),)


def _objective(campaign_file: CampaignFile, asked: TrainerSettings) -> tuple[Objective, dict[str, str]]:
    notes, trainer = asked.resolved.blueprint.notes, asked.trainer
    usual = trainer.objective(asked.whole)
    said: dict[str, str] = {}
    wanted = campaign_file["metric"].strip() or notes.metric or (usual.metric if usual else "")
    metric = ask.server(trainer).recorded_metric(wanted, notes)
    if not metric:
        raise UsageError(
            f"the trainer {trainer.name} has no usual metric and none is named",
            hint="--metric NAME, or `- metric: NAME` in the notes of the blueprint",
            code="no_metric",
        )
    try:
        direction = usual_direction(metric, usual)
    except ExpressionError as error:
        raise UsageError(f"the metric {error}", hint=EXPRESSIONS, code="bad_metric") from None
    if not campaign_file["metric"].strip():
        said["metric"] = "blueprint" if notes.metric else f"trainer {trainer.name}"
    if campaign_file["direction"]:
        return Objective(metric, Direction(campaign_file["direction"])), said
    if notes.direction and wanted == notes.metric:
        said["direction"] = "blueprint"
        return Objective(metric, Direction(notes.direction)), said
    if direction is None:
        raise UsageError(
            f"whether {metric} is to be maximized or minimized is not said",
            hint="`--set direction=maximize` or minimize: of a sum nobody can tell",
            code="no_direction",
        )
    known = usual is not None and usual.metric in (metric, *Objective(metric).keys)
    said["direction"] = f"trainer {trainer.name}" if known else "the metric's name"
    return Objective(metric, direction), said


def _rules(campaign_file: CampaignFile, objective: Objective, now: float) -> Rules:
    target = None
    if campaign_file["target"]:
        try:
            target = parse_target(campaign_file["target"], objective)
        except ValueError as error:
            raise UsageError(f"target: {error}", code="bad_target") from None
    rules = Rules(
        campaign_file["count"],
        campaign_file["deadline"],
        campaign_file["budget_gpu_hours"],
        target,
        campaign_file["budget_usd"],
        campaign_file["budget_tokens"],
    )
    timeout = campaign_file["timeout"]
    if rules.deadline is not None and timeout is not None and rules.deadline - now < timeout:
        raise UsageError(
            f"the deadline is in {span(rules.deadline - now)}, and one run may take {span(timeout)}: none could start",
            hint="a later --deadline, or a shorter --timeout",
            code="impossible_deadline",
        )
    return rules


def _trees(campaign: Path, parts: Parts) -> Path:
    """Where its worktrees are: apart from those of a campaign of this name in another repository or clone."""
    return state_home(parts.environ) / "worktrees" / f"{campaign.name}-{key_of(campaign)}"


def _spec(
    campaign_file: CampaignFile,
    asked: TrainerSettings,
    checkout: Checkout,
    objective: Objective,
    rules: Rules,
    parts: Parts,
) -> CampaignSpec:
    resolved = asked.resolved
    slug = naming.slugify(campaign_file.path.stem if campaign_file.path else resolved.blueprint.slug)
    now = parts.clock()
    day = time.strftime("%Y%m%d", time.localtime(now))
    prefix = (campaign_file["prefix"] or f"autoresearch/{naming.campaign_name(day, slug)}").strip("/")
    name = prefix.rpartition("/")[2]
    directory = checkout.root / "reports" / "auto_research" / naming.slugify(name)
    recipe, codebase = _inside(resolved.recipe, checkout), _inside(resolved.codebase, checkout)
    return CampaignSpec(
        name=name,
        slug=slug,
        directory=str(directory),
        repository=str(checkout.root),
        codebase="" if codebase == "." else codebase,
        trees=campaign_file["trees"] or str(_trees(directory, parts)),
        blueprint=str(resolved.path),
        blueprint_text=resolved.file.data.decode("utf-8", "replace"),
        prefix=prefix,
        base_commit="",
        base=campaign_file["base"] or "the working tree as it is",
        recipe=recipe,
        interpreter=str(resolved.interpreter),
        result_dir=str(resolved.result_dir),
        objective=objective,
        proposer=_proposer(campaign_file, asked),
        rules=rules,
        created=now,
        timeout_s=campaign_file["timeout"],
        replicates=campaign_file["baseline"],
        retests=campaign_file["retests"],
        confirm=campaign_file["confirm"],
        confirm_runs=campaign_file["confirm_runs"],
        runs_per_gpu=campaign_file["runs_per_gpu"],
        gpu_busy_mib=campaign_file["gpu_busy_mib"],
        include=tuple(dict.fromkeys([*resolved.blueprint.notes.include, *campaign_file["include"]])),
        min_steps=campaign_file["min_steps"],
        prune=campaign_file["prune"],
        warmup=campaign_file["warmup"] or 0,
        research=research_spec(campaign_file.values),
    )


def _inside(path: Path | None, checkout: Checkout) -> str:
    """Relative to the repository; absolute where it lies elsewhere, "" for nothing."""
    if path is None:
        return ""
    real = path.resolve()
    root = checkout.root.resolve()
    return str(real.relative_to(root)) if real == root or root in real.parents else str(real)


def _proposer(campaign_file: CampaignFile, asked: TrainerSettings) -> ProposerSpec:
    trainer = asked.trainer
    space: Any = campaign_file["space"]
    name = campaign_file["proposer"] or ("queue" if campaign_file["queue"] else "tpe")
    if name == AGENT:
        return ProposerSpec(name, seed=campaign_file["seed"])
    if name == "queue":
        if not campaign_file["queue"]:
            raise UsageError(
                "the proposer is a queue, and none is named",
                hint="`queue: ideas/` in the campaign file, or --queue PATH: a folder of blueprints or a YAML list",
                code="no_queue",
            )
        if not Path(campaign_file["queue"]).exists():
            raise UsageError(f"the queue {campaign_file['queue']} is not there", code="no_queue")
        return ProposerSpec(name, queue=campaign_file["queue"], seed=campaign_file["seed"])
    if space is None:
        space = trainer.space(asked.whole)
    if not space:
        raise UsageError(
            f"nobody says what to try: there is no `space`, and the trainer {trainer.name} has none of its own",
            hint="`space: {lr: {low: 1e-6, high: 1e-4, log: true}}` in the campaign file, or a `queue`",
            code="no_space",
        )
    from autoresearch.core.campaign.space import need_grid, need_search
    from autoresearch.core.campaign.space_file import read_space

    parsed = read_space(space)
    (need_grid if name == "grid" else need_search)(parsed)
    check_packages(OPTIMISER if name == HYBRID else name)
    return ProposerSpec(name, space=dict(space), queue=campaign_file["queue"], seed=campaign_file["seed"])


def _proposer_source(campaign_file: CampaignFile) -> dict[str, str]:
    """Where the two that have no built-in value came from."""
    said = {}
    if not campaign_file.given("proposer"):
        said["proposer"] = "a queue is named" if campaign_file["queue"] else "built-in"
    if not campaign_file.given("space") and not campaign_file["queue"]:
        said["space"] = "the trainer's own, low-risk"
    return said


def _secrets(spec: CampaignSpec, resolved: ResolvedBlueprint) -> tuple[Finding, ...]:
    """What the campaign executes is in its records and in the commit of each idea, where no secret may stand."""
    notes = resolved.blueprint.notes
    commands = (resolved.blueprint.launch_command, *notes.prepare, *notes.evaluate, *notes.cleanup)
    variables = (f"{name}={value}" for name, value in notes.env.items())
    keys = {name: value for name, value in spec.to_json().items() if name != "blueprint_text"}
    told = [f"its blueprint (`{plain(text, 120)}`)" for text in (*commands, *variables) if mask_text(text) != text]
    told += [f"its key `{name}`" for name, value in keys.items() if MASK in json.dumps(mask_values(value))]
    hint = "pass it by the environment: `- requires_env: NAME` in the notes of the blueprint, `$NAME` in the command"
    return tuple(
        Finding(
            Severity.ERROR,
            "secret_in_campaign",
            f"{where} holds what looks like a secret, and each idea of a campaign is committed with it",
            hint,
        )
        for where in told
    )


def _promise(spec: CampaignSpec) -> list[Finding]:
    """Whether what was asked for can be done in the time."""
    rules, found = spec.rules, []
    if rules.count and rules.deadline and spec.timeout_s:
        runs = rules.count - 1 + spec.replicates
        most = runs * spec.timeout_s / spec.parallel
        left = rules.deadline - spec.created
        if most > left:
            found.append(
                Finding(
                    Severity.WARNING,
                    "may_not_fit",
                    f"{runs} runs of at most {span(spec.timeout_s)} take up to {span(most)}, and {span(left)} are left",
                    "the deadline wins; fewer ideas, a shorter --timeout or more --parallel would fit",
                )
            )
    return found


def _dirty(checkout: Checkout, spec: CampaignSpec, campaign_file: CampaignFile) -> tuple[str, ...]:
    if campaign_file["base"]:
        return ()
    found = survey(checkout, leave_out=[Path(spec.directory).parent, Path(spec.result_dir)])
    return found.dirty


def named_base(plan: Charter) -> str:
    """The commit that `base` names. UsageError where it names none."""
    name, checkout = plan.campaign_file["base"], plan.checkout
    with checkout.git.start("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}") as asked:
        status, out, _ = asked.finish()
    if status:
        raise UsageError(f"base: {name!r} names no commit of {checkout.root}", code="bad_base")
    return os.fsdecode(out).strip()


def with_base(plan: Charter) -> CampaignSpec:
    """Make the base: a commit of the working tree as it is, or what `base` names."""
    spec, checkout = plan.spec, plan.checkout
    if plan.campaign_file["base"]:
        return replace(spec, base_commit=named_base(plan))
    ours = (plan.resolved.path, plan.campaign_file.path, spec.proposer.queue)
    shot = snapshot(
        checkout,
        message=f"{spec.name}: the base of a campaign, the working tree as it was",
        extra=masked_files(checkout, [Path(path) for path in ours if path]),
        leave_out=[Path(spec.directory).parent, Path(spec.result_dir)],
    )
    left = f"; left out: {', '.join(map(str, shot.left_out[:5]))}" if shot.left_out else ""
    return replace(spec, base_commit=shot.commit, base=f"the working tree at the start{left}")
