"""The shell of a campaign: what its controller, its agents and their guards have after a resume in another shell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.lab.campaigns.context import in_its_shell


def test_the_recorded_shell_comes_first(spec: CampaignSpec, tmp_path: Path) -> None:
    here = replace(spec, repository=str(tmp_path))
    environ = {"PATH": "/b:/new", "VIRTUAL_ENV": "/b", "HOME": "/h", "CONDA_PREFIX": "/c"}
    assert in_its_shell(here, environ) == environ, "an older version recorded no shell"
    recorded = replace(here, shell={"PATH": "/a/bin:/b", "VIRTUAL_ENV": "/a"})
    assert in_its_shell(recorded, environ) == {"PATH": "/a/bin:/b:/new", "VIRTUAL_ENV": "/a", "HOME": "/h"}


def test_what_an_agent_or_a_guard_starts_synchronises_nothing(spec: CampaignSpec, tmp_path: Path) -> None:
    here = replace(spec, repository=str(tmp_path), codebase="code")
    assert in_its_shell(here, {}) == {}, "where there is no environment, uv makes one"
    (tmp_path / "code/.venv").mkdir(parents=True)
    (tmp_path / "code/.pixi/envs").mkdir(parents=True)
    assert in_its_shell(here, {}) == {"UV_NO_SYNC": "1", "PIXI_FROZEN": "true", "PIXI_NO_INSTALL": "true"}
    assert in_its_shell(here, {"UV_NO_SYNC": "0"})["UV_NO_SYNC"] == "0"
    assert "UV_NO_SYNC" not in in_its_shell(here, {"UV_PROJECT_ENVIRONMENT": "elsewhere"})
