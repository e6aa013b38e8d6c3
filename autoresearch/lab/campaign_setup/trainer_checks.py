"""What the trainer, its command and its recipe mean for all runs of a campaign."""

from __future__ import annotations

import math

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.lab.campaign_setup.campaign_options import CampaignFile
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.run_limits import limits_of
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, raise_on
from autoresearch.lab.settings import Settings
from autoresearch.trainers import ask, ray_job


def trainer_findings(
    campaign_file: CampaignFile, trainer_settings: TrainerSettings, parts: Parts
) -> tuple[Finding, ...]:
    """Problems of recipe and command within a run's time. Raises BlueprintError for the first error."""
    blueprint = trainer_settings.resolved.blueprint
    max_s = min(campaign_file["timeout"] or math.inf, blueprint.max_time_s)
    findings = (*trainer_settings.findings(max_s, parts.environ), *_shared_ray_job(blueprint.launch_command))
    raise_on(findings)
    trainer_settings.refuse_seed()
    return findings


def gpus_needed(trainer_settings: TrainerSettings, parts: Parts) -> int:
    """How many GPUs of this machine the recipe asks for; 0 if it does not say, or has them elsewhere."""
    blueprint = trainer_settings.resolved.blueprint
    if ask.server(trainer_settings.trainer).server_elsewhere(blueprint.notes):
        return 0
    return trainer_settings.gpus_needed({**parts.environ, **blueprint.notes.env})


def refuse_targets(spec: CampaignSpec, trainer_settings: TrainerSettings) -> None:
    """Raise BlueprintError if the trainer cannot run in parallel, or on these targets."""
    server = ask.server(trainer_settings.trainer)
    raise_on(server.check_server(trainer_settings.resolved.blueprint, spec.places, spec.parallel))


def pruning_findings(spec: CampaignSpec, trainer_settings: TrainerSettings) -> tuple[Finding, ...]:
    """A warning if runs are pruned by other numbers than those that they are judged by."""
    if not (spec.prune and trainer_settings.resolved.blueprint.notes.evaluate):
        return ()
    message = "early stopping looks at what the training prints, not at the evaluation, which comes after it"
    return (Finding(Severity.WARNING, "pruned_by_prints", message),)


def first_step_rule(trainer_settings: TrainerSettings, settings: Settings) -> str:
    """The effect of the limit to the first step in each run, in a sentence."""
    known = ask.steps_known(trainer_settings.trainer)
    return limits_of(trainer_settings, settings).first_step_rule(steps_known=known)


def _shared_ray_job(command: str) -> tuple[Finding, ...]:
    """An error if all runs would submit a Ray job of the same name."""
    job = ray_job.find(command)
    if job is None or not job.submission_id:
        return ()
    message = f"every run would submit the Ray job {job.submission_id}, and Ray takes a name only once"
    hint = "take --submission-id out: each run gets one of its own"
    return (Finding(Severity.ERROR, "ray_job_named_for_all", message, hint),)
