"""What cannot be begun, found before anything is touched; one sentence for each."""

from __future__ import annotations

from collections.abc import Mapping

from autoresearch.core.campaign import CampaignSpec
from autoresearch.core.recipe_edits import apply_overrides
from autoresearch.core.trainer import Trainer
from autoresearch.errors import BlueprintError, UsageError
from autoresearch.repository.branches import branch_fault


def refuse(spec: CampaignSpec, trainer: Trainer, recipe: Mapping[str, object]) -> None:
    """Raise UsageError or BlueprintError for the first thing that no campaign can do."""
    if fault := branch_fault(spec.branch("baseline")):
        raise UsageError(f"--prefix {spec.prefix!r} makes no branch: {fault}", code="bad_prefix")
    if spec.rules.budget_gpu_hours is not None and not spec.gpus_per_run:
        raise UsageError(
            "the budget is in GPU hours, and no run of this campaign has a GPU: it would never be spent",
            hint="--gpus all, or another stop rule: --count, --deadline, --target",
            code="no_gpu_to_count",
        )
    if spec.proposer.space:
        _refuse_space(spec, trainer, recipe)


def _refuse_space(spec: CampaignSpec, trainer: Trainer, recipe: Mapping[str, object]) -> None:
    """Every key must be one of the recipe, or one that the trainer knows a default of."""
    if not spec.recipe:
        raise BlueprintError(
            "a space of recipe keys needs a recipe, and the blueprint has none",
            hint="name it in [exp_yaml_path], or use a queue of blueprints",
            code="no_recipe",
        )
    optional = set(trainer.space(recipe))
    for key in spec.proposer.space:
        if key not in optional:
            apply_overrides(recipe, {key: None})
