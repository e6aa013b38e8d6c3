"""What the plan says of the cost: how many runs at most, and how long they take where a run tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from autoresearch.core.campaign.spec import CampaignSpec, Rules
from autoresearch.lab.campaign_setup import campaign_cost
from autoresearch.lab.campaign_setup.campaign_cost import CampaignCost, priced
from autoresearch.records.index import Index

HOUR = 3600.0


@pytest.fixture
def price(tmp_path: Path, spec: CampaignSpec) -> Callable[..., tuple[CampaignSpec, CampaignCost]]:
    """The cost of a campaign with these rules, whose last run took 20 minutes; `seen=False`: there is none."""
    parts: Any = SimpleNamespace(index=Index(tmp_path / "state"), environ={"XDG_STATE_HOME": str(tmp_path)})

    def make(baseline: int | None = None, *, seen: bool = True, **changes: Any) -> tuple[CampaignSpec, CampaignCost]:
        names = ("count", "budget_gpu_hours", "target", "confirm_runs")
        rules = {name: changes.pop(name) for name in names if name in changes}
        if hours := changes.pop("hours", None):
            rules["deadline"] = spec.created + hours * HOUR
        if baseline:
            changes |= {"replicates": baseline, "sources": {"baseline": "campaign.yaml"}}
        known = (1200.0, "x") if seen else (None, "")
        with mock.patch.object(campaign_cost, "_newest_whole_run", lambda *_: known):
            usual = {"replicates": 5, "timeout_s": 1200.0}
            return priced(replace(spec, rules=Rules(**rules), **(usual | changes)), 7 * HOUR, parts)

    return make


@pytest.mark.parametrize(
    ("changes", "runs", "why"),
    [
        ({"count": 24}, 5, ""),
        ({"count": 7}, 4, "5 are for 8 ideas or more"),
        ({"hours": 4.0, "parallel": 2}, 5, ""),
        ({"count": 4, "baseline": 5}, 5, "campaign.yaml"),
    ],
)
def test_five_runs_of_the_baseline_but_in_a_small_campaign(
    changes: dict[str, Any], runs: int, why: str, price: Callable[..., tuple[CampaignSpec, CampaignCost]]
) -> None:
    spec, _ = price(**changes)
    assert (spec.replicates, spec.sources.get("baseline", "")) == (runs, why)


def test_the_words_and_the_numbers(price: Callable[..., tuple[CampaignSpec, CampaignCost]]) -> None:
    _, cost = price(count=24, parallel=2)
    assert cost.runs_words == (
        "24 ideas: at most 211 runs (6 of the baseline, 23 first runs, up to 150 re-tests of what looks better, "
        "up to 32 fresh ones to prove the best)"
    )
    assert cost.hours_words == "4h50m to 35h10m, with 20m a run (as the run x took) on 2 slots"
    numbers = {"ideas": 24, "runs_at_least": 29, "runs_at_most": 211, "run_s": 1200.0}
    assert json.loads(json.dumps(cost.to_json())) == numbers


def test_what_is_certain_is_said_once(price: Callable[..., tuple[CampaignSpec, CampaignCost]]) -> None:
    _, cost = price(count=24, confirm=False, retests=0, baseline=5)
    assert cost.runs_words == "24 ideas: 29 runs (6 of the baseline, 23 first runs)"
    assert cost.hours_words.startswith("9h40m, with 20m a run")


def test_a_limit_is_no_expectation(price: Callable[..., tuple[CampaignSpec, CampaignCost]]) -> None:
    _, cost = price(seen=False, count=24, hours=0.1)
    assert cost.hours_words == "unknown until the baseline ran; a run is cut after 6m"  # what the deadline leaves
    assert cost.to_json()["run_s"] is None
    assert price(seen=False, hours=0.1)[1].runs_words.startswith("ideas until another rule ends it: most take one run")
