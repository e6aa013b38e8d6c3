"""Requests: what a controller writes down when it obeys one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.lab.campaigns import requests

pytestmark = pytest.mark.system


def test_what_goes_on_again_has_no_reason(lived: Any) -> None:
    lived.tell("state", state="paused", reason="lunch")
    control: Any = SimpleNamespace(campaign_dir=lived.place, say=lambda _: None)
    requests.obey(control, lived.state(), {"do": "resume"})
    assert (lived.state().phase, lived.state().reason) == (CampaignPhase.RUNNING, "")
