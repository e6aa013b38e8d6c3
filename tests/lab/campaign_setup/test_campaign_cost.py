"""What the plan says of the cost: how long a run takes, which limit binds, how many runs of the baseline fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from autoresearch.core.campaign.spec import CampaignSpec, Rules
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.lab.campaign_setup import campaign_cost
from autoresearch.lab.campaign_setup.campaign_cost import CampaignCost, RunDuration, priced, run_duration
from autoresearch.records.index import Index
from autoresearch.records.ledger import Ledger

HOUR = 3600.0


@pytest.fixture
def parts(tmp_path: Path) -> Any:
    """An account without a run or a campaign."""
    return SimpleNamespace(index=Index(tmp_path / "state"), environ={"XDG_STATE_HOME": str(tmp_path)})


@pytest.fixture
def price(parts: Any, spec: CampaignSpec) -> Callable[..., tuple[CampaignSpec, CampaignCost]]:
    """The cost of a campaign with these rules, whose runs took 20 minutes so far; `seen=False`: nobody knows."""

    def make(baseline: int | None = None, *, seen: bool = True, **changes: Any) -> tuple[CampaignSpec, CampaignCost]:
        names = ("count", "budget_gpu_hours", "target", "confirm_runs")
        rules = {name: changes.pop(name) for name in names if name in changes}
        if hours := changes.pop("hours", None):
            rules["deadline"] = spec.created + hours * HOUR
        if baseline:
            changes |= {"replicates": baseline, "sources": {"baseline": "campaign.yaml"}}
        known = RunDuration(1200.0, "as the run x took", measured=True)
        with mock.patch.object(campaign_cost, "run_duration", lambda *_: known) if seen else nullcontext():
            return priced(replace(spec, rules=Rules(**rules), timeout_s=1200.0, **changes), 7 * HOUR, parts)

    return make


@pytest.mark.parametrize(
    ("changes", "runs", "why"),
    [
        ({"count": 24}, 5, ""),
        ({"count": 7}, 4, "5 are for 8 ideas or more"),
        ({"count": 24, "hours": 7.0}, 4, "5 would be more than a fifth of the 21 runs for which the deadline"),
        ({"hours": 4.0, "parallel": 2}, 4, "24 runs for which the deadline"),
        ({"hours": 4.0, "parallel": 4}, 5, ""),
        ({"budget_gpu_hours": 12.0, "gpus_per_run": 2}, 4, "18 runs for which the budget of GPU hours leaves room"),
        ({"count": 4, "baseline": 5}, 5, "campaign.yaml"),
        ({"target": 0.5}, 5, ""),
    ],
)
def test_five_runs_of_the_baseline_where_the_budget_allows(
    changes: dict[str, Any], runs: int, why: str, price: Callable[..., tuple[CampaignSpec, CampaignCost]]
) -> None:
    spec, _ = price(**changes)
    assert spec.replicates == runs
    assert why in spec.sources.get("baseline", "") and bool(why) == ("baseline" in spec.sources)


def test_a_limit_that_cannot_hold_what_is_always_run(
    price: Callable[..., tuple[CampaignSpec, CampaignCost]],
) -> None:
    _, cost = price(count=24, hours=5.0, parallel=2)
    assert (cost.capacity, cost.limit) == (30, "the deadline")
    (warning,) = cost.findings
    assert warning.code == "may_not_fit" and warning.message.startswith("24 ideas and the smallest proof take 37 runs")
    assert cost.room_words == "the deadline leaves room for 30 runs" and cost.room_words in warning.message
    assert not price(count=24, hours=40.0)[1].findings
    assert not price(count=24, hours=5.0, parallel=2, confirm=False)[1].findings
    _, hours = price(hours=40.0, budget_gpu_hours=5.0, gpus_per_run=1)
    assert (hours.capacity, hours.limit, hours.runs) == (15, "the budget of GPU hours", None)
    _, free = price(target=0.9)
    assert free.runs is None and "nothing limits the number of ideas" in free.runs_words and not free.room_words


def test_the_words_and_the_numbers(price: Callable[..., tuple[CampaignSpec, CampaignCost]]) -> None:
    _, cost = price(count=24, parallel=2)
    runs, numbers = cost.runs, cost.to_json()
    assert runs is not None
    assert cost.runs_words == (
        "24 ideas: at most 211 runs (6 of the baseline, 23 first runs, up to 6 more of an idea that looks better, "
        "8 to 16 to prove the best idea)"
    )
    assert cost.hours_words == "4h50m to 35h10m, with 20m a run (as the run x took) on 2 slots"
    assert (numbers["runs_at_least"], numbers["seconds_at_least"]) == (29, 29 * 600)
    assert (numbers["runs_at_most"], numbers["seconds_at_most"]) == (runs.most, runs.most * 600)
    assert json.loads(json.dumps(numbers)) == numbers


def test_what_is_certain_is_said_once(price: Callable[..., tuple[CampaignSpec, CampaignCost]]) -> None:
    _, cost = price(count=24, confirm=False, retests=0, baseline=5)
    assert cost.runs_words == "24 ideas: 29 runs (6 of the baseline, 23 first runs)"
    assert cost.hours_words.startswith("9h40m, with 20m a run")


def test_a_limit_is_no_expectation(price: Callable[..., tuple[CampaignSpec, CampaignCost]]) -> None:
    """A script of 2 s has room for more than 0 runs in 10 hours, though its blueprint allows 24 hours."""
    spec, cost = price(seen=False, count=24, hours=0.1)
    assert (spec.replicates, cost.capacity, cost.findings, cost.room_words) == (5, None, (), "")
    assert cost.hours_words == "unknown until the baseline ran; a run is cut after 6m"  # what the deadline leaves
    _, rest = price(seen=False, hours=0.1)
    assert rest.runs_words.startswith("ideas until the deadline ends it: most take one run")


def test_how_long_a_run_takes_is_read_from_an_earlier_campaign(parts: Any, spec: CampaignSpec, tmp_path: Path) -> None:
    unknown = run_duration(spec, 7 * HOUR, parts)
    assert (unknown.seconds, unknown.measured) == (7 * HOUR, False) and unknown.source.startswith("the most")
    folder = tmp_path / "x" / "reports" / "auto_research" / "earlier"
    folder.mkdir(parents=True)
    (folder / "campaign.json").write_text(json.dumps({**asdict(spec), "name": "earlier"}))
    record = {"name": "earlier", "directory": str(folder), "created": 1.0}
    (tmp_path / "autoresearch" / "campaigns").mkdir(parents=True)
    (tmp_path / "autoresearch" / "campaigns" / "earlier.json").write_text(json.dumps(record))
    assert not run_duration(spec, 7 * HOUR, parts).measured  # nothing of it is over yet
    ledger = Ledger(folder / "results.tsv")
    for number, (index, minutes, ending) in enumerate(
        [(1, 10.0, "finished"), (1, 20.0, "finished"), (1, 1.0, "crashed"), (2, 90.0, "finished")]
    ):
        ledger.append_once(LedgerRow(index=index, run_id=f"r-{number}", elapsed_min=minutes, ending=ending))
    known = run_duration(spec, 7 * HOUR, parts)
    assert (known.seconds, known.measured) == (900.0, True) and "campaign earlier" in known.source
    assert run_duration(replace(spec, timeout_s=600.0), 7 * HOUR, parts).seconds == 600.0  # no run takes longer
    assert not run_duration(replace(spec, blueprint="/x/other.md"), 7 * HOUR, parts).measured
