"""Values that a campaign is resolved from, without a file, a repository or a process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoresearch.core.blueprint.model import Notes
from autoresearch.core.campaign.spec import CampaignSpec, ProposerSpec
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.targets import LOCAL, Target
from autoresearch.core.shell import read_shell
from autoresearch.lab.campaign_setup.campaign_keys import DEFAULTS, CampaignFile
from autoresearch.lab.campaign_setup.read_setup import CampaignSetup
from autoresearch.records.index import Index
from autoresearch.trainers import registry
from tests.specs import campaign_spec

NOW = 1_800_000_000.0
NO_RUNS = Index(Path("/nonexistent/autoresearch"))


@pytest.fixture
def setup() -> Callable[..., CampaignSetup]:
    """A campaign with these keys, the others at their defaults, and a blueprint with these notes."""

    def make(
        trainer: str = "generic",
        *,
        recipe: dict[str, object] | None = None,
        campaign_s: float | None = None,
        campaign_count: int | None = None,
        notes: dict[str, Any] | None = None,
        targets: tuple[Target, ...] = (LOCAL,),
        needed: int = 0,
        **keys: Any,
    ) -> CampaignSetup:
        values, sources = {**DEFAULTS, **keys}, dict.fromkeys(keys, "campaign.yaml")
        file = CampaignFile(Path("/x/exp.md"), Path("/x/campaign.yaml"), values, sources)
        blueprint = SimpleNamespace(
            notes=Notes(**notes or {}),
            launch_command="python train.py",
            max_time_s=3600.0,
            campaign_time_s=campaign_s,
            campaign_count=campaign_count,
        )
        resolved = SimpleNamespace(blueprint=blueprint, path="exp.md", codebase=Path("/x"))
        settings: Any = SimpleNamespace(
            trainer=registry.choose(trainer, read_shell("python train.py")),
            whole=recipe or {},
            resolved=resolved,
            gpus_needed=lambda environ: needed,
        )
        parts: Any = SimpleNamespace(environ={}, index=NO_RUNS, clock=lambda: NOW)
        checkout: Any = None
        project: Any = SimpleNamespace(is_on=lambda name: True, launchers={})
        return CampaignSetup(file, project, settings, checkout, targets, parts)

    return make


@pytest.fixture
def spec() -> CampaignSpec:
    """A small campaign on this machine."""
    return campaign_spec(
        name="20270115-exp",
        repository="/x",
        blueprint="/x/exp.md",
        interpreter="/v/python",
        objective=Objective("score", Direction.MAXIMIZE),
        proposer=ProposerSpec("tpe"),
        created=NOW,
    )
