"""The runs of a campaign: the plan's bounds, and what is to come, against simulated campaigns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.campaign.spec import MOST_REPEATS, MOST_ROUNDS, CampaignSpec, ProposerSpec, Rules
from autoresearch.core.campaign.tip import most_proofs
from autoresearch.core.controller.rules import eta, runs_to_come, seconds_a_run, smallest_round
from autoresearch.core.statistics.confirmation import design
from autoresearch.lab.campaign_setup.campaign_cost import run_count
from tests.bench.simulated import Simulation, World
from tests.core.conftest import SPEC

FRESH = sum(2 * design(number, 1, 16).sizes[-1] for number in range(1, MOST_ROUNDS + 1))


def planned(**changes: Any) -> CampaignSpec:
    rules = Rules(count=24, confirm_runs=changes.pop("confirm_runs", 16))
    return replace(SPEC, rules=rules, **{"replicates": 5, **changes})


def test_every_part_of_the_number() -> None:
    count = run_count(planned(), 24)
    assert (count.baseline, count.first) == (5 + 1, 23)  # it runs once more after the first 12 ideas
    assert run_count(planned(), 13).baseline == 5  # not after the last one
    assert (count.least, count.most) == (29, 6 + 23 * 7 + MOST_REPEATS + FRESH)
    none = run_count(planned(confirm=False, retests=0), 24)
    assert none.least == none.most == 29
    assert run_count(planned(), 1).most == 5  # there is nothing to confirm
    two = run_count(planned(replicates=2), 24)
    assert two.most == 2 + 23 * 7 + MOST_REPEATS + FRESH + 1  # the third run shows whether seeds do anything
    tip = run_count(planned(search="tip", proposer=ProposerSpec("queue")), 24)  # its ideas run once
    assert tip.least == 29 and tip.most == 29 + most_proofs(23) * 7 + MOST_REPEATS + FRESH + 16  # and an ablation


def test_the_smallest_proof(records: Callable[..., Any]) -> None:
    made = records()
    state = made.state()
    assert smallest_round(state) == 8
    for changed in (replace(state.spec, confirm=False), state.spec.with_rules({"confirm_runs": 4})):
        assert smallest_round(replace(state, spec=changed)) == 0
    made.checked(seen=False)
    assert smallest_round(made.state()) == 0  # no claim is made of copies


class _Foreseen(Simulation):
    """After each row, the runs that are expected to come, and what is said of the time."""

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.to_come: list[float] = []
        self.times: list[str] = []

    def row(self, *args: Any, **more: Any) -> None:
        super().row(*args, **more)
        self.to_come.append(runs_to_come(self.state))
        self.times.append(eta(self.state))


@pytest.mark.parametrize(("ideas", "baseline"), [(4, 3), (7, 4), (12, 5), (23, 5)])
def test_at_half_time_what_is_to_come_is_within_a_factor_of_two(ideas: int, baseline: int) -> None:
    """Of campaigns that find something, as the demo does."""
    for seed in range(6):
        played = _Foreseen(World(ideas=ideas, share=0.8, effect=4.0, baseline=baseline), seed)
        outcome = played.run()
        made = outcome.runs + outcome.fresh
        half = made // 2
        assert 0.5 < played.to_come[half - 1] / (made - half) < 2, (seed, half, made)
        assert played.to_come[-1] == 0 and played.times[-1] == ""
        assert "to go, a proof included" in played.times[half // 2]


@pytest.mark.parametrize(("ideas", "share"), [(3, 0.1), (7, 0.5), (23, 0.5)])
def test_a_campaign_stays_within_its_plan(ideas: int, share: float) -> None:
    for seed in range(3):
        played = Simulation(World(ideas=ideas, share=share), seed)
        outcome, count = played.run(), run_count(played.state.spec, ideas + 1)
        assert count.least <= outcome.runs + outcome.fresh <= count.most


def test_the_time_to_go_is_the_campaigns_own(records: Callable[..., Any]) -> None:
    """By when runs ended: what lies between them counts, unless the campaign stood still."""
    made = records(rules=Rules(count=2), confirm=False, retests=0)
    made.clock += 60  # between two runs
    made.run("baseline", 0.5)
    assert seconds_a_run(made.state()) == pytest.approx((3 * 300 + 360) / 4, abs=2)
    made.clock += 9e5  # a pause
    made.run("baseline", 0.5)
    assert seconds_a_run(made.state()) == pytest.approx((3 * 300 + 2 * 360) / 5, abs=2)
    assert eta(made.state()) == "; about 5m24s to go"
