"""From a campaign file to a campaign that could be started; nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, raise_on
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaign_setup.campaign_checks import agent_findings, check_gpus, check_targets, secret_findings
from autoresearch.lab.campaign_setup.campaign_cost import CampaignCost, priced
from autoresearch.lab.campaign_setup.campaign_goal import constraints_of, objective_of, rules_of
from autoresearch.lab.campaign_setup.campaign_keys import CampaignFile
from autoresearch.lab.campaign_setup.campaign_spec import ProposedBase, campaign_spec
from autoresearch.lab.campaign_setup.proposer_spec import resolve_proposer
from autoresearch.lab.campaign_setup.read_setup import read_setup
from autoresearch.lab.campaign_setup.shown_to_runs import not_sent, with_shown
from autoresearch.lab.ideas.tried_before import with_earlier
from autoresearch.lab.parts import Parts
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, limits_of
from autoresearch.records.campaign_records import CampaignDir


@dataclass(frozen=True, slots=True)
class ProposedCampaign:
    """A campaign as it would be started; `spec.base_commit` is still ""."""

    file: Path  # the campaign file that was named, or the blueprint
    spec: CampaignSpec
    cost: CampaignCost
    base: ProposedBase
    trainer_settings: TrainerSettings
    launch: LaunchSettings  # what its ideas can vary
    first_step_rule: str  # the effect of the limit to the first step, in a sentence
    findings: tuple[Finding, ...]

    @property
    def campaign_dir(self) -> CampaignDir:
        """Its directory, which may not exist yet."""
        return CampaignDir(Path(self.spec.directory))


def resolve_campaign(campaign_file: CampaignFile, parts: Parts) -> ProposedCampaign:
    """Decide everything about a campaign. Raises UsageError, BlueprintError or EnvironmentUnusable."""
    setup = read_setup(campaign_file, parts)
    trainer_settings = setup.trainer_settings
    objective = objective_of(setup)
    rules = rules_of(setup, objective)
    gpus, per_run = check_gpus(setup)
    launch = trainer_settings.launch(setup.checkout.root)
    spec = campaign_spec(
        setup,
        resolve_proposer(setup, launch),
        objective=objective,
        constraints=constraints_of(setup),
        rules=rules,
        gpus=gpus,
        gpus_per_run=per_run,
        flags=launch.flags,
    )
    raise_on(secret_findings(setup, spec))
    base = ProposedBase.of(setup, spec)
    spec = campaign_registry.with_own_results(spec, parts)
    if setup.file["earlier"]:
        spec = with_earlier(spec, (one.campaign_dir for one in campaign_registry.known(parts)))
    spec = with_shown(spec, base, trainer_settings, launch)
    spec, cost = priced(spec, setup.blueprint.max_time_s, parts)
    setup.findings.extend(agent_findings(setup, spec))
    check_targets(setup)
    setup.findings.extend(not_sent(spec, parts))
    limits = limits_of(trainer_settings, setup.settings)
    return ProposedCampaign(
        file=campaign_file.source,
        spec=spec,
        cost=cost,
        base=base,
        trainer_settings=trainer_settings,
        launch=launch,
        first_step_rule=limits.first_step_rule(steps_known=trainer_settings.steps_known),
        findings=tuple(setup.findings),
    )
