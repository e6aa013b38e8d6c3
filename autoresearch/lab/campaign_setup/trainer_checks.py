"""Whether the trainer can do what a campaign wants of it, and what it means for each run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Notes
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.campaign_setup.run_targets import CampaignTargets
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.run_limits import limits_of
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, raise_on
from autoresearch.lab.settings import Settings
from autoresearch.trainers import ask, ray_job


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
