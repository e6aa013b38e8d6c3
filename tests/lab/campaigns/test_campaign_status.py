"""The state of a campaign as seen from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.lab.campaigns import campaign_status

pytestmark = pytest.mark.system


def test_a_campaign_that_ends_while_somebody_looks_is_not_dead(campaign: Callable[..., Any]) -> None:
    made = campaign()
    before = made.state()
    assert campaign_status.phase_now(made.place, before) == "dead"
    made.tell("state", state="ended", reason="stop condition met")
    assert campaign_status.phase_now(made.place, before) == "ended"
    assert campaign_status.reason_now(made.place, before, CampaignPhase.ENDED) == "stop condition met"
