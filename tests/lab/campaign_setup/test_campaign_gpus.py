"""The GPUs that the runs of a campaign get, here and on remote targets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from autoresearch.core.run.targets import LOCAL, Target, parse_pool
from autoresearch.errors import UsageError
from autoresearch.lab.campaign_setup.run_targets import CampaignTargets, campaign_gpus

PARTS: Any = SimpleNamespace(environ={})


def remote(**options: Any) -> Target:
    (target,) = parse_pool("slurm:2", {"slurm": {"kind": "slurm", **options}} if options else {})
    return target


@pytest.mark.parametrize(
    ("keys", "options", "needed", "per_run"),
    [
        ({}, {}, 0, 0),
        ({}, {}, 4, 4),  # what the recipe asks for
        ({}, {"gpus_per_run": 8}, 4, 8),
        ({"gpus_per_run": 2}, {"gpus_per_run": 8}, 4, 2),
    ],
)
def test_remote_runs_get_what_is_given_or_needed(
    keys: dict[str, int], options: dict[str, int], needed: int, per_run: int, campaign_file: Any
) -> None:
    target = Target("slurm", remote().kind, options=options)
    gpus = campaign_gpus(campaign_file(**keys), CampaignTargets((target,), "flag --launcher"), needed, PARTS)
    assert (gpus.uuids, gpus.per_run, gpus.is_set) == ((), per_run, bool(keys))


def test_local_runs_without_a_pool_get_none(campaign_file: Any) -> None:
    targets = CampaignTargets((LOCAL,), "built-in")
    assert campaign_gpus(campaign_file(), targets, 4, PARTS).per_run == 0
    with pytest.raises(UsageError, match="one run needs 2 GPUs, and the pool holds 0"):
        campaign_gpus(campaign_file(gpus_per_run=2), targets, 0, PARTS)
