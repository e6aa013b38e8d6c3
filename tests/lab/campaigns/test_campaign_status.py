"""The state of a campaign as seen from outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.commands.overview_table import campaign_text
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.lab.campaigns import campaign_status
from autoresearch.lab.overview.campaigns import RunningCampaigns
from autoresearch.lab.parts import Parts
from autoresearch.records.index import Index

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
def test_the_queue_shows_the_best_with_what_kind_of_number_it_is(
    campaign: Callable[..., Any], tmp_path: Path, direction: Direction, value: str
) -> None:
    made = campaign(objective=Objective("loss", direction))
    made.idea("sure")
    made.run("sure", 0.5 + made.spec.objective.change(0.3))
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    parts = Parts(environ=environ, index=Index(tmp_path / "index"), launcher=lambda _: pytest.fail("no session"))

    def words() -> str:
        (line,) = RunningCampaigns(parts).lines(Counter({made.place.path: 1}), made.clock)
        return campaign_text(line)

    assert words().endswith("loss (search mean)")
    made.verdict("confirmed", "sure", gain=0.1)
    assert words().endswith(f"{value} (confirmed)")
