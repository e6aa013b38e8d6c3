"""Whether a campaign's coding agent can be used here, and how far it and the code that it edits are confined."""

from __future__ import annotations

from pathlib import Path

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.controller.agent_schedule import HYBRID
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.lab.parts import Parts


def agent_findings(campaign_spec: CampaignSpec, blueprint: Blueprint, parts: Parts) -> tuple[Finding, ...]:
    """Check the coding agent and its sandbox. UsageError if none is named, EnvironmentUnusable if it cannot be used."""
    if not campaign_spec.research.agent and not (needs := _needs_agent(campaign_spec)):
        return ()
    from autoresearch.lab.agents import agent_factory  # `campaign status` imports this file, and needs no agent
    from autoresearch.lab.agents.agent_sandbox import Level

    if not campaign_spec.research.agent:
        installed = ", ".join(agent_factory.installed(parts.environ)) or "none that we know"
        raise UsageError(
            f"{needs} is about a coding agent, and none is named",
            hint=f"--agent NAME; installed: {installed}",
            code="no_agent",
        )
    level = agent_factory.check(campaign_spec.research, parts.environ, usd=campaign_spec.rules.budget_usd is not None)
    weak = (Finding(Severity.WARNING, "confinement", level.sentence),) if level is not Level.BUBBLEWRAP else ()
    return (*weak, *_sandbox_findings(campaign_spec, blueprint, parts))


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
    return (Finding(Severity.WARNING, "not_sandboxed", message, hint),) if why else ()
