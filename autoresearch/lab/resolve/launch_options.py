"""Decides the options of a launch: where it goes, its environment, its GPUs, the repository that keeps its code."""

from __future__ import annotations

from collections.abc import Mapping

from autoresearch.core.run.targets import Target
from autoresearch.errors import UsageError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve import gpu_check
from autoresearch.lab.resolve.resolved_run import CampaignRun, LaunchOptions
from autoresearch.lab.resolve.trainer_settings import TrainerSettings
from autoresearch.lab.settings import Settings
from autoresearch.launchers import gpus, volume
from autoresearch.trainers import ask


def launch_options(
    trainer_settings: TrainerSettings,
    settings: Settings,
    target: Target,
    campaign_run: CampaignRun | None,
    environment: Mapping[str, str],
) -> LaunchOptions:
    """The options of a launch to a target, with the trainer's environment."""
    resolved = trainer_settings.resolved
    lone_here = campaign_run is None and resolved.files.here  # otherwise its code is kept by somebody else
    checkout = repository.find(resolved.codebase) if lone_here else None
    needed = trainer_settings.gpus_needed(environment)
    return LaunchOptions(
        environment=environment,
        checkout=checkout,
        no_git=repository.why_not(resolved.codebase) if lone_here and checkout is None else "",
        require_snapshot=settings.text("require_snapshot").lower() in ("yes", "true", "on", "1"),
        tmux_socket=settings.text("tmux_socket"),
        campaign_run=campaign_run,
        target=target,
        remote_gpus=gpu_check.remote_gpus(settings, needed, campaign_run.remote_gpus if campaign_run else None),
        caches=volume.find(settings.text("big_volume"), environment).variables,
    )


def one_target(settings: Settings, note: str = "") -> Target:
    """The target of a single run. Raises UsageError if several are named."""
    targets = settings.targets(note)
    if len(targets) > 1:
        names = ", ".join(target.name for target in targets)
        message = f"a run goes to one target, and {len(targets)} are named: {names}"
        raise UsageError(message, hint="a campaign can use all of them", code="bad_launcher")
    return targets[0]


def gpus_of(chosen: str, target: Target, parts: Parts) -> gpus.GpuChoice:
    """GPUs of this machine to lease; a number picks free ones, and the lease itself decides in the Runner."""
    return gpus.choose(chosen if target.is_local else "none", parts.environ)


def environment_of(
    trainer_settings: TrainerSettings, parts: Parts, campaign_run: CampaignRun | None, leased: gpus.GpuChoice
) -> dict[str, str]:
    """The trainer's environment: the caller's, under the campaign's, the blueprint's and the trainer's own."""
    given = {**ask.QUIET, **parts.environ, **(campaign_run.environment if campaign_run else {})}
    env = {k: v for k, v in given.items() if not k.startswith("AUTORESEARCH_RUN_")}
    env |= trainer_settings.resolved.blueprint.notes.env
    if leased.uuids:
        env |= leased.variables
    return env | dict(trainer_settings.environment)
