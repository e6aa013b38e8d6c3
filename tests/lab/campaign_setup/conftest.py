"""Values that a campaign is resolved from, without a file, a repository or a process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoresearch.core.blueprint.model import Notes
from autoresearch.core.campaign.spec import CampaignSpec, ProposerSpec, Rules
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.campaign_setup.campaign_keys import DEFAULTS
from autoresearch.trainers import registry

NOW = 1_800_000_000.0


@pytest.fixture
def campaign_file() -> Callable[..., CampaignFile]:
    """A campaign file with these keys, the others at their defaults."""

    def make(**keys: Any) -> CampaignFile:
        sources = dict.fromkeys(keys, "campaign.yaml")
        return CampaignFile(Path("/x/exp.md"), Path("/x/campaign.yaml"), {**DEFAULTS, **keys}, sources)

    return make


@pytest.fixture
def trainer_settings() -> Callable[..., Any]:
    """What a trainer makes of a recipe, for a blueprint with these notes."""

    def make(
        trainer: str = "generic", recipe: dict[str, object] | None = None, campaign_s: float | None = None, **notes: Any
    ) -> Any:
        blueprint = SimpleNamespace(
            notes=Notes(**notes), launch_command="python train.py", max_time_s=3600.0, campaign_time_s=campaign_s
        )
        chosen = registry.choose(trainer, "python train.py", ())
        resolved = SimpleNamespace(blueprint=blueprint, path="exp.md", codebase=Path("/x"))
        return SimpleNamespace(trainer=chosen, whole=recipe or {}, resolved=resolved)

    return make


@pytest.fixture
def spec() -> CampaignSpec:
    """A small campaign on this machine."""
    return CampaignSpec(
        name="20270115-exp",
        slug="exp",
        directory="/x/reports/auto_research/20270115-exp",
        repository="/x",
        codebase="",
        trees="/state/trees",
        blueprint="/x/exp.md",
        blueprint_text="# Exp",
        prefix="autoresearch/20270115-exp",
        base_commit="",
        base="",
        recipe="",
        interpreter="/v/python",
        result_dir="/x/results",
        objective=Objective("score", Direction.MAXIMIZE),
        proposer=ProposerSpec("tpe"),
        rules=Rules(),
        created=NOW,
    )
