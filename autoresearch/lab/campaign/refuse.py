"""What cannot be begun, found before anything is touched; one sentence for each."""

from __future__ import annotations

from autoresearch.core.campaign import CampaignSpec
from autoresearch.core.finding import Finding, Severity
from autoresearch.errors import UsageError
from autoresearch.lab.overrides import Launch
from autoresearch.repository.branches import branch_fault
from autoresearch.trainers import ask


def refuse(spec: CampaignSpec, launch: Launch) -> tuple[Finding, ...]:
    """Raise UsageError or BlueprintError for the first thing that no campaign can do; else what is doubtful."""
    if fault := branch_fault(spec.branch("baseline")):
        raise UsageError(f"--prefix {spec.prefix!r} makes no branch: {fault}", code="bad_prefix")
    if spec.rules.budget_gpu_hours is not None and not spec.gpus_per_run:
        raise UsageError(
            "the budget is in GPU hours, and no run of this campaign has a GPU: it would never be spent",
            hint="--gpus all, or another stop rule: --count, --deadline, --target",
            code="no_gpu_to_count",
        )
    return _doubtful_space(launch, tuple(spec.proposer.space))


def _doubtful_space(launch: Launch, keys: tuple[str, ...]) -> tuple[Finding, ...]:
    """Every key must be one of the recipe, of the command, or one that the trainer has a default for."""
    _, behind = launch.split(dict.fromkeys(keys))
    if not behind:
        return ()
    launch.with_settings(dict.fromkeys(behind, 1))  # raises where the command has no place for them
    unknown = [key for key in behind if key not in ask.settings(launch.trainer, {}, launch.command)]
    if launch.recipe is None or not unknown:
        return ()
    message = f"the recipe has no {', '.join(unknown)}: set behind the command, where nobody looks whether it is known"
    return (Finding(Severity.WARNING, "unchecked_key", message, "compare the name with the trainer's own"),)
