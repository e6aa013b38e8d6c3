"""Whether this machine, the targets and the coding agent can do what a campaign asks, and how the agent is confined."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from autoresearch.core.agents.turns import AGENT, HYBRID
from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.lab.campaign_setup.read_setup import CampaignSetup
from autoresearch.lab.remote.inspect import inspect
from autoresearch.lab.remote_files.remote_host import InterpreterSearch
from autoresearch.lab.resolve.host_check import RemoteGpus, too_few_at, too_few_here
from autoresearch.launchers import gpus
from autoresearch.runner.masking import MASK, mask_text, mask_values
from autoresearch.runner.text import plain
from autoresearch.trainers import registry


def check_gpus(setup: CampaignSetup) -> tuple[tuple[str, ...], int]:
    """The GPUs of this machine that may be leased, and how many each run gets.

    UsageError if one run needs more than the pool holds. What the recipe asks for is compared with what a run is given,
    here and on remote targets.
    """
    file, is_set = setup.file, setup.file.is_set("gpus_per_run")
    given: int | None = file["gpus_per_run"]
    server_elsewhere = registry.server(setup.trainer_settings.trainer).server_elsewhere(setup.blueprint.notes)
    checked = setup.gpu_check and not server_elsewhere
    needed = setup.trainer_settings.gpus_needed(setup.environ) if checked else 0
    remote = [target for target in setup.targets if not target.is_local]
    if setup.here:
        pool = gpus.request(file["gpus"], setup.environ)
        uuids = pool.uuids[: pool.number]
        if (given or 0) > len(uuids):
            raise UsageError(
                f"one run needs {given} GPUs, and the pool holds {len(uuids)}",
                hint="--gpus all, or --gpus 0,1: the pool; `--set gpus_per_run=N`: how many of it each run gets",
                code="too_few_gpus",
            )
        per_run = min(1, len(uuids)) if given is None else given
        if needed:
            setup.findings.extend(too_few_here(needed, per_run, setup.environ))
    else:
        uuids = ()
        own = [target.options["gpus_per_run"] for target in remote if "gpus_per_run" in target.options]
        per_run = given if given is not None and is_set else max(own, default=needed)
    if needed:
        usual = RemoteGpus(None, per_run if is_set else needed)
        setup.findings.extend(one for target in remote for one in too_few_at(needed, target, usual))
    return uuids, per_run


def check_targets(setup: CampaignSetup) -> None:
    """Query every target; one that cannot be used, or has no such interpreter, is an error."""
    prepared = bool(setup.blueprint.notes.prepare)  # which may create the interpreter there
    for target in (one for one in setup.targets if not one.is_local):
        search = InterpreterSearch(target, str(setup.trainer_settings.resolved.interpreter), prepared=prepared)
        setup.findings.extend(inspect(target, setup.parts, search).findings)


def secret_findings(setup: CampaignSetup, campaign_spec: CampaignSpec) -> tuple[Finding, ...]:
    """Errors for secrets in what a campaign executes: its records and the commit of each idea would hold them."""
    notes = setup.blueprint.notes
    commands = (setup.blueprint.launch_command, *notes.prepare, *notes.evaluate, *notes.cleanup)
    variables = (f"{name}={value}" for name, value in notes.env.items())
    keys = {name: value for name, value in asdict(campaign_spec).items() if name != "blueprint_text"}
    holders = [f"its blueprint (`{plain(text, 120)}`)" for text in (*commands, *variables) if mask_text(text) != text]
    holders += [f"its key `{name}`" for name, value in keys.items() if MASK in json.dumps(mask_values(value))]
    message = "holds what looks like a secret, and each idea of a campaign is committed with it"
    hint = "pass it by the environment: `- requires_env: NAME` in the notes of the blueprint, `$NAME` in the command"
    return tuple(Finding(Severity.ERROR, "secret_in_campaign", f"{one} {message}", hint) for one in holders)


# ------------------------------------------------------------------ the coding agent


def agent_findings(setup: CampaignSetup, campaign_spec: CampaignSpec) -> Iterator[Finding]:
    """Check the coding agent and its sandbox. UsageError if none is named, EnvironmentUnusable if it cannot be used."""
    environ, rules = setup.parts.environ, campaign_spec.rules
    if not campaign_spec.research.agent and not (needs := _needs_agent(campaign_spec)):
        yield from _hide_not_kept(campaign_spec, "nothing is sandboxed in a campaign without a coding agent")
        return
    from autoresearch.lab.agent_work import agent_turns  # `campaign status` imports this file, and needs no agent
    from autoresearch.lab.agent_work.turn_dir import Level

    if not campaign_spec.research.agent:
        installed = ", ".join(agent_turns.installed(environ)) or "none that we know"
        message = f"{needs} is about a coding agent, and none is named"
        raise UsageError(message, hint=f"--agent NAME; installed: {installed}", code="no_agent")
    every = (campaign_spec.research.of(agent) for agent in campaign_spec.research.agents)
    levels = [agent_turns.check(one, environ, rules) for one in every]
    for level in dict.fromkeys(one for one in levels if one is not Level.BUBBLEWRAP):
        yield Finding(Severity.WARNING, "confinement", level.sentence)
    if campaign_spec.self_reported:
        metric = campaign_spec.objective.metric
        yield Finding(
            Severity.WARNING,
            "self_reported",
            f"the code that the agent edits prints its own {metric}: a line such as `{metric} = 0.99` would win",
            "`- evaluate: COMMAND` in the notes measures each run outside of that code (docs/evaluation.md); without "
            "it, an idea that looks as if it set its own score waits for `campaign approve IDEA`",
        )
    yield from _sandbox_findings(setup, campaign_spec)


def _needs_agent(campaign_spec: CampaignSpec) -> str:
    """The first part of the campaign that has no meaning without a coding agent; "" if there is none."""
    if campaign_spec.proposer.name in (AGENT, HYBRID):
        return f"the proposer {campaign_spec.proposer.name}"
    if campaign_spec.rules.budget_usd is not None:
        return "budget usd"
    return "budget tokens" if campaign_spec.rules.budget_tokens is not None else ""


def _sandbox_findings(setup: CampaignSetup, campaign_spec: CampaignSpec) -> Iterator[Finding]:
    """Why code that an agent edits would train outside of a sandbox, as a warning, or as an error if one is needed."""
    from autoresearch.lab.launch.run_sandbox import why_no_sandbox, writable_paths

    notes = setup.blueprint.notes
    records = (Path(campaign_spec.directory).parent, Path(campaign_spec.trees))
    home = setup.parts.environ.get("HOME", "/")
    writable_paths(notes.writable, Path(campaign_spec.repository), home, records)  # raises for one that is not allowed
    remote = ", ".join(target.name for target in campaign_spec.places if not target.is_local)
    why = "the setting `sandbox` is off" if campaign_spec.research.sandbox == "off" else ""
    why = why or why_no_sandbox(notes, setup.blueprint.launch_command, setup.environ)
    why = why or (f"runs go to {remote}" if remote else "")
    if not why:
        return
    if campaign_spec.research.sandbox == "need":
        raise EnvironmentUnusable(
            f"a sandbox is needed, and training cannot have one: {why}",
            hint="go without by `--set sandbox=auto`: claims about edited code then say `not sandboxed`",
            code="no_sandbox",
        )
    message = f"code that the agent edits trains without a sandbox ({why}): it can write wherever you can"
    hint = "claims about it read `confirmed (not sandboxed)`; docs/evaluation.md says what is still detected"
    yield Finding(Severity.WARNING, "not_sandboxed", message, hint)
    yield from _hide_not_kept(campaign_spec, why, remote)


def _hide_not_kept(campaign_spec: CampaignSpec, why: str, remote: str = "") -> Iterator[Finding]:
    """That `hide:` of the notes is no more than a wish; an error where it would keep the evaluation from reading it."""
    names = ", ".join(campaign_spec.hide)
    if names and remote:
        message = f"hide: {names} would not be sent to {remote}, where the runs are evaluated"
        yield Finding(Severity.ERROR, "hide_remote", message, "run here, or use `include:`, which hides nothing")
    elif names:
        message = f"hide: cannot be kept ({why}): training and whoever edits it can read {names}"
        yield Finding(Severity.WARNING, "hide_not_kept", message, "docs/evaluation.md says what is readable")
