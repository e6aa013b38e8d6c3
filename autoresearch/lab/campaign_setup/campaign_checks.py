"""Whether trainer and coding agent can do what a campaign wants of them, and how far an agent is confined."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Blueprint, Notes
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.controller.agent_schedule import HYBRID
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.campaign_setup.run_targets import CampaignTargets
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.run_limits import limits_of
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, raise_on
from autoresearch.lab.settings import Settings
from autoresearch.records.secrets import MASK, mask_text, mask_values
from autoresearch.runner.text import plain
from autoresearch.trainers import ask, ray_job


def agent_findings(campaign_spec: CampaignSpec, blueprint: Blueprint, parts: Parts) -> tuple[Finding, ...]:
    """Check the coding agent and its sandbox. UsageError if none is named, EnvironmentUnusable if it cannot be used."""
    if not campaign_spec.research.agent and not (needs := _needs_agent(campaign_spec)):
        return _not_kept(campaign_spec, "nothing is sandboxed in a campaign without a coding agent")
    from autoresearch.lab.agent_work import agent_turns  # `campaign status` imports this file, and needs no agent
    from autoresearch.lab.agent_work.sandbox import Level

    if not campaign_spec.research.agent:
        installed = ", ".join(agent_turns.installed(parts.environ)) or "none that we know"
        raise UsageError(
            f"{needs} is about a coding agent, and none is named",
            hint=f"--agent NAME; installed: {installed}",
            code="no_agent",
        )
    level = agent_turns.check(campaign_spec.research, parts.environ, usd=campaign_spec.rules.budget_usd is not None)
    weak = (Finding(Severity.WARNING, "confinement", level.sentence),) if level is not Level.BUBBLEWRAP else ()
    return (*weak, *_self_reported(campaign_spec), *_sandbox_findings(campaign_spec, blueprint, parts))


def _self_reported(campaign_spec: CampaignSpec) -> tuple[Finding, ...]:
    """That the code which is edited prints its own score."""
    if not campaign_spec.self_reported:
        return ()
    metric = campaign_spec.objective.metric
    message = f"the code that the agent edits prints its own {metric}: a line such as `{metric} = 0.99` would win"
    hint = (
        "`- evaluate: COMMAND` in the notes measures each run outside of that code (docs/evaluation.md); without it, "
        "an idea that looks as if it set its own score waits for `campaign approve IDEA`"
    )
    return (Finding(Severity.WARNING, "self_reported", message, hint),)


def _needs_agent(campaign_spec: CampaignSpec) -> str:
    """The first part of the campaign that has no meaning without a coding agent; "" if there is none."""
    if campaign_spec.proposer.name in (AGENT, HYBRID):
        return f"the proposer {campaign_spec.proposer.name}"
    if campaign_spec.rules.budget_usd is not None:
        return "budget usd"
    return "budget tokens" if campaign_spec.rules.budget_tokens is not None else ""


def _sandbox_findings(campaign_spec: CampaignSpec, blueprint: Blueprint, parts: Parts) -> tuple[Finding, ...]:
    """Why code that an agent edits would train outside of a sandbox, as a warning, or as an error if one is needed."""
    from autoresearch.lab.launch.run_sandbox import why_no_sandbox, writable_paths

    notes = blueprint.notes
    records, home = (Path(campaign_spec.directory).parent, Path(campaign_spec.trees)), parts.environ.get("HOME", "/")
    writable_paths(notes.writable, Path(campaign_spec.repository), home, records)  # raises for one that is not allowed
    remote = [target.name for target in campaign_spec.places if not target.is_local]
    why = "the setting `sandbox` is off" if campaign_spec.research.sandbox == "off" else ""
    why = why or why_no_sandbox(notes, blueprint.launch_command, {**parts.environ, **notes.env})
    why = why or (f"runs go to {', '.join(remote)}" if remote else "")
    if why and campaign_spec.research.sandbox == "need":
        raise EnvironmentUnusable(
            f"a sandbox is needed, and training cannot have one: {why}",
            hint="go without by `--set sandbox=auto`: claims about edited code then say `not sandboxed`",
            code="no_sandbox",
        )
    message = f"code that the agent edits trains without a sandbox ({why}): it can write wherever you can"
    hint = "claims about it read `confirmed (not sandboxed)`; docs/evaluation.md says what is still detected"
    if not why:
        return ()
    return (Finding(Severity.WARNING, "not_sandboxed", message, hint), *_not_kept(campaign_spec, why, *remote))


def _not_kept(campaign_spec: CampaignSpec, why: str, *remote: str) -> tuple[Finding, ...]:
    """That `hide:` of the notes is no more than a wish; an error where it would keep the evaluation from reading it."""
    if not campaign_spec.hide:
        return ()
    names = ", ".join(campaign_spec.hide)
    if remote:
        message = f"hide: {names} would not be sent to {', '.join(remote)}, where the runs are evaluated"
        return (Finding(Severity.ERROR, "hide_remote", message, "run here, or use `include:`, which hides nothing"),)
    message = f"hide: cannot be kept ({why}): training and whoever edits it can read {names}"
    return (Finding(Severity.WARNING, "hide_not_kept", message, "docs/evaluation.md says what is readable"),)


def hide_findings(campaign_spec: CampaignSpec, checkout: Checkout, commit: str) -> tuple[Finding, ...]:
    """Whether `hide:` names files that git does not hold: whoever can read the repository reads every commit of it."""
    findings = [finding for text in campaign_spec.hide for finding in _check_hidden(text, checkout, commit)]
    for text in campaign_spec.hide:
        for include in campaign_spec.include:
            if PurePosixPath(text) in (PurePosixPath(include), *PurePosixPath(include).parents):
                message = f"hide: {text} holds {include}, which `include:` shows to every run"
                findings.append(Finding(Severity.ERROR, "hide_included", message, "name what is hidden one by one"))
    return tuple(findings)


def _check_hidden(text: str, checkout: Checkout, commit: str) -> Iterator[Finding]:
    path = checkout.root / text
    if not path.exists():
        yield Finding(Severity.ERROR, "hide_missing", f"hide: {text} is not there: {path}", "make it, or take it out")
        return
    root, real = Path(os.path.realpath(checkout.root)), Path(os.path.realpath(path))
    if real in (root, *root.parents):
        yield Finding(Severity.ERROR, "hide_all", f"hide: {text} holds the whole repository", "name a part of it")
    if root not in real.parents:
        return
    name = real.relative_to(root).as_posix()
    if checkout.git.run("ls-tree", "--name-only", commit, "--", f":(literal){name}"):
        message = f"hide: {text} is tracked by git, so that whoever reads the repository can read it"
        hint = f"git rm -r --cached {name}; add /{name} to .gitignore; commit. `evaluate` finds it all the same"
        yield Finding(Severity.ERROR, "hide_tracked", message, hint)
    elif found := checkout.git.run("log", "--all", "-1", "--format=%h", "--", f":(literal){name}").decode().strip():
        message = f"hide: {text} was in git until {found}, and what it held then can still be read there"
        yield Finding(Severity.WARNING, "hide_in_history", message, "use answers that no commit ever held")


@dataclass(frozen=True, slots=True)
class TrainerCheck:
    """What the trainer's recipe and command mean for all runs of a campaign."""

    gpus_needed: int  # by a run on this machine; 0 if the recipe does not say, or has them elsewhere
    first_step_rule: str  # the effect of the limit to the first step, in a sentence
    findings: tuple[Finding, ...]


def check_trainer(
    campaign_file: CampaignFile,
    trainer_settings: TrainerSettings,
    campaign_targets: CampaignTargets,
    settings: Settings,
    parts: Parts,
) -> TrainerCheck:
    """Check recipe and command. Raises BlueprintError for the first error."""
    trainer, blueprint = trainer_settings.trainer, trainer_settings.resolved.blueprint
    max_s = min(campaign_file["timeout"] or math.inf, blueprint.max_time_s)
    findings = (*trainer_settings.findings(max_s, parts.environ), *_shared_ray_job(blueprint.launch_command))
    raise_on(findings)
    trainer_settings.refuse_seed()
    server = ask.server(trainer)
    raise_on(server.check_server(blueprint, campaign_targets.targets, campaign_targets.parallel))
    environ = {**parts.environ, **blueprint.notes.env}
    needed = 0 if server.server_elsewhere(blueprint.notes) else trainer_settings.gpus_needed(environ)
    limits = limits_of(trainer_settings, settings)
    pruned = _pruned_by_output(blueprint.notes) if campaign_file["prune"] else ()
    return TrainerCheck(needed, limits.first_step_rule(steps_known=ask.steps_known(trainer)), (*findings, *pruned))


def _pruned_by_output(notes: Notes) -> tuple[Finding, ...]:
    """A warning if runs are pruned by other numbers than those that they are judged by."""
    if not notes.evaluate:
        return ()
    message = "early stopping looks at what the training prints, not at the evaluation, which comes after it"
    return (Finding(Severity.WARNING, "pruned_by_prints", message),)


def _shared_ray_job(command: str) -> tuple[Finding, ...]:
    """An error if all runs would submit a Ray job of the same name."""
    job = ray_job.find(command)
    if job is None or not job.submission_id:
        return ()
    message = f"every run would submit the Ray job {job.submission_id}, and Ray takes a name only once"
    hint = "take --submission-id out: each run gets one of its own"
    return (Finding(Severity.ERROR, "ray_job_named_for_all", message, hint),)


def secret_findings(campaign_spec: CampaignSpec, blueprint: Blueprint) -> tuple[Finding, ...]:
    """Errors for secrets in what a campaign executes: its records and the commit of each idea would hold them."""
    notes = blueprint.notes
    commands = (blueprint.launch_command, *notes.prepare, *notes.evaluate, *notes.cleanup)
    variables = (f"{name}={value}" for name, value in notes.env.items())
    keys = {name: value for name, value in asdict(campaign_spec).items() if name != "blueprint_text"}
    holders = [f"its blueprint (`{plain(text, 120)}`)" for text in (*commands, *variables) if mask_text(text) != text]
    holders += [f"its key `{name}`" for name, value in keys.items() if MASK in json.dumps(mask_values(value))]
    hint = "pass it by the environment: `- requires_env: NAME` in the notes of the blueprint, `$NAME` in the command"
    return tuple(
        Finding(
            Severity.ERROR,
            "secret_in_campaign",
            f"{holder} holds what looks like a secret, and each idea of a campaign is committed with it",
            hint,
        )
        for holder in holders
    )
