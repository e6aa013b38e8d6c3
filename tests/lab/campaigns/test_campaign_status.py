"""The state of a campaign as seen from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from autoresearch.commands.overview import campaign_text
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.errors import ConflictError
from autoresearch.lab.campaign_setup.start_campaign import start_controller
from autoresearch.lab.campaigns import campaign_status
from autoresearch.lab.runs.overview import campaign_line

pytestmark = pytest.mark.system


def test_a_campaign_that_ends_while_somebody_looks_is_not_dead(campaign: Callable[..., Any]) -> None:
    made = campaign()
    before = made.state()
    assert campaign_status.phase_now(made.place, before) == "dead"
    made.tell("state", state="ended", reason="stop condition met")
    assert campaign_status.phase_now(made.place, before) == "ended"
    assert campaign_status.reason_now(made.place, before, CampaignPhase.ENDED) == "stop condition met"


@pytest.mark.parametrize(
    ("direction", "value"),
    [(Direction.MAXIMIZE, "best #2 Try sure: 0.6 loss"), (Direction.MINIMIZE, "best #2 Try sure: 0.4 loss")],
)
def test_the_table_shows_the_best_with_what_kind_of_number_it_is(
    campaign: Callable[..., Any], direction: Direction, value: str
) -> None:
    made = campaign(objective=Objective("loss", direction))
    made.idea("sure")
    made.run("sure", 0.5 + made.spec.objective.change(0.3))

    def words() -> str:
        return campaign_text(campaign_line(made.place, 1, made.clock, own=True)[0])

    assert words().endswith("loss (kept)")
    made.verdict("confirmed", "sure", gain=0.1, value=0.5 + made.spec.objective.change(0.1))
    assert words().endswith(f"{value} (confirmed)")


OF_BEFORE = ({"objective": Objective("max(a) - last(b)")}, {"constraints": ("max(a) - b < 5",)})


@pytest.mark.parametrize("of_before", OF_BEFORE)
def test_one_of_before_that_calculates_does_not_go_on(campaign: Any, of_before: dict[str, Any]) -> None:
    with pytest.raises(ConflictError, match=r"cannot go on: .*is not understood"):
        start_controller(campaign(**of_before).place, mock.Mock())


def test_one_that_waits_offers_the_proof_of_what_it_keeps(campaign: Callable[..., Any]) -> None:
    made = campaign()
    proof = f"autoresearch campaign confirm {made.spec.name}"
    assert proof not in campaign_status.next_commands(made.state(), CampaignPhase.WAITING)
    made.idea("sure")
    made.run("sure", 0.9)
    assert proof in campaign_status.next_commands(made.state(), CampaignPhase.WAITING)
    made.verdict("confirmed", "sure", gain=0.1)
    assert proof not in campaign_status.next_commands(made.state(), CampaignPhase.WAITING)
