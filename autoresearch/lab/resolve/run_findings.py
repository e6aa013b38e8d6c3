"""What is doubtful about a run once everything is decided: no metric, limits that cross, too few GPUs."""

from __future__ import annotations

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.text.durations import spoken
from autoresearch.lab.resolve import gpu_check
from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint
from autoresearch.lab.resolve.resolved_run import LaunchOptions
from autoresearch.lab.resolve.trainer_settings import TrainerSettings
from autoresearch.lab.settings import Settings


def gpu_findings(
    trainer_settings: TrainerSettings, spec: RunSpec, options: LaunchOptions, settings: Settings
) -> tuple[Finding, ...]:
    """Compare the recipe's request with the machine's GPUs; in a campaign, with what the campaign gives the run."""
    trainer, command, environment = trainer_settings.trainer, trainer_settings.understood, options.environment
    joins = gpu_check.joins(trainer.name, command, environment) if options.target.is_local else ()
    needed = trainer_settings.gpus_needed(environment)
    given = len(spec.gpus) if options.campaign_run is None else options.campaign_run.gpus
    remote = spec.swarm is not None and not spec.swarm.server  # the engine's GPUs are on its server's machine
    if not needed or given is None or remote or not gpu_check.checks(settings.text("gpu_check")):
        return joins
    request = gpu_check.GpuRequest(needed, given, gpu_check.elsewhere(settings, needed))
    if options.target.is_local:
        return (*request.compared(environment), *joins)
    return request.at(options.target, options.remote_gpus)


def unjudged(trainer_settings: TrainerSettings) -> tuple[Finding, ...]:
    """A warning if no metric judges the run."""
    if trainer_settings.objective:
        return ()
    trainer = trainer_settings.trainer.name
    message = f"no metric is named, and the trainer {trainer} has no usual one: the run cannot be judged"
    return (Finding(Severity.WARNING, "no_metric", message, "add `- metric: NAME` to the notes"),)


def crossed_limits(spec: RunSpec, resolved: ResolvedBlueprint) -> tuple[Finding, ...]:
    """Crossed limits that come from flags and settings; lint reports those of the blueprint."""
    first, whole = spec.limits.first_step_s, spec.limits.max_s
    given = spec.limits.strict_first_step or resolved.blueprint.first_step_given  # an unset default is no request
    if spec.why or first <= whole or not given or any(f.code == "limits_crossed" for f in resolved.findings):
        return ()
    message = f"the first step may take {spoken(first)}, longer than {spoken(whole)} in all: that limit comes first"
    hint = "a shorter --first-step-timeout, or a longer --max-time"
    return (Finding(Severity.WARNING, "limits_crossed", message, hint),)
