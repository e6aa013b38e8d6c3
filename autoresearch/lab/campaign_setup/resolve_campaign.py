"""From a campaign file to a campaign that could be started; nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.lab.campaign_setup.campaign_checks import agent_findings, check_trainer, secret_findings
from autoresearch.lab.campaign_setup.campaign_cost import CampaignCost, priced
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.campaign_setup.campaign_goal import resolve_goal
from autoresearch.lab.campaign_setup.campaign_spec import (
    ProposedBase,
    campaign_checkout,
    campaign_spec,
    propose_base,
)
from autoresearch.lab.campaign_setup.earlier_campaign import with_earlier_name
from autoresearch.lab.campaign_setup.proposer_spec import CampaignProposer, asked_keys, resolve_proposer
from autoresearch.lab.campaign_setup.run_targets import campaign_gpus, campaign_targets, gpus_checked
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote_files.remote_code import refuse_in_campaign
from autoresearch.lab.resolve.blueprint_file import read_blueprint
from autoresearch.lab.resolve.resolve_blueprint import raise_on_errors, resolve_blueprint
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer, raise_on
from autoresearch.lab.settings import load as load_settings
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.trainers import registry


@dataclass(frozen=True, slots=True)
class ProposedCampaign:
    """A campaign as it would be started; `spec.base_commit` is still ""."""

    file: Path  # the campaign file that was named, or the blueprint
    spec: CampaignSpec
    cost: CampaignCost
    base: ProposedBase
    earlier: str  # whether an earlier campaign of the same line goes on, in a sentence; "" for the first one
    trainer_settings: TrainerSettings
    proposer: CampaignProposer
    first_step_rule: str  # the effect of the limit to the first step, in a sentence
    findings: tuple[Finding, ...]

    @property
    def campaign_dir(self) -> CampaignDir:
        """Its directory, which may not exist yet."""
        return CampaignDir(Path(self.spec.directory))


def resolve_campaign(campaign_file: CampaignFile, parts: Parts) -> ProposedCampaign:
    """Decide everything about a campaign. Raises UsageError, BlueprintError or EnvironmentUnusable."""
    settings = load_settings(campaign_file.blueprint.parent, environ=parts.environ)
    resolved = resolve_blueprint(read_blueprint(campaign_file.blueprint), environ=parts.environ)
    blueprint = resolved.blueprint
    targets = campaign_targets(campaign_file, settings, blueprint.notes.launcher)
    refuse_in_campaign(targets.targets)
    raise_on_errors(resolved)
    checkout = campaign_checkout(resolved.codebase)
    trainer_settings = ask_trainer(
        registry.for_blueprint(blueprint, shell_reading=resolved.shell_reading), resolved, job="ajet_campaign"
    )
    trainer = check_trainer(campaign_file, trainer_settings, targets, settings, parts)
    goal = resolve_goal(campaign_file, trainer_settings, parts.clock(), parts.index)
    gpu_check = gpus_checked(campaign_file, settings)
    gpus = campaign_gpus(campaign_file, targets, trainer.gpus_needed if gpu_check else 0, parts)
    launch = trainer_settings.launch_for(asked_keys(campaign_file), checkout.root, parts.environ)
    proposer = resolve_proposer(campaign_file, launch, trainer_settings.whole)
    spec = campaign_spec(campaign_file, resolved, checkout, goal, proposer.spec, parts)
    seeding, seeding_why = trainer_settings.seeding
    spec = replace(
        spec,
        self_reported=bool(spec.research.agent) and not blueprint.notes.evaluate,
        seeding=seeding,
        seeding_why=seeding_why,
        places=targets.targets,
        parallel=targets.parallel,
        gpus=gpus.uuids,
        gpus_per_run=gpus.per_run,
        gpu_check=gpu_check,
        tmux_socket=settings.text("tmux_socket"),
        flags={key: value for key, value in launch.flags.items() if key not in trainer_settings.launch().flags},
        sources={
            **campaign_file.sources,
            **goal.sources,
            **({} if targets.source == "built-in" else {"launcher": targets.source}),
            **proposer.sources,
        },
    )
    raise_on(secret_findings(spec, blueprint))
    own_files = [path for path in (resolved.path, campaign_file.path, spec.proposer.queue) if path]
    base = propose_base(spec, checkout, campaign_file["base"], map(Path, own_files))
    spec, earlier = with_earlier_name(spec, base, parts)
    spec, cost = priced(spec, blueprint.max_time_s, parts)
    return ProposedCampaign(
        file=campaign_file.path or campaign_file.blueprint,
        spec=spec,
        cost=cost,
        base=base,
        earlier=earlier,
        trainer_settings=trainer_settings,
        proposer=proposer,
        first_step_rule=trainer.first_step_rule,
        findings=(
            # the runs of a campaign have directories of their own below that one
            *(one for one in resolved.findings if one.code not in ("finished_run", "hide_alone")),
            *(*trainer.findings, *cost.findings),
            *gpus.findings(targets, settings, {**parts.environ, **blueprint.notes.env}),
            *agent_findings(spec, blueprint, parts),
            *targets.checked(parts, resolved.interpreter, prepared=bool(blueprint.notes.prepare)),
        ),
    )
