"""A second campaign on the same question: it knows what the first one measured, kept and gave up."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir

pytestmark = pytest.mark.system


def test_what_was_given_up_is_not_tried_again(camp: Any) -> None:
    """By an optimiser or an agent; what a person lists is tried, and so is what was kept."""
    from autoresearch.lab.agent_work.propose_ideas import earlier_section

    bad = {"slug": "bad", "overrides": {"lr": 1.0}, "parent": "baseline"}
    queue = camp.ideas({"slug": "good", "overrides": {"lr": 0.01}}, bad)
    camp.run(queue=queue, count=3, baseline=3, confirm=False)
    campaign_records.append(CampaignDir(camp.place.path), "finding", idea="good", text="lr below 0.1 helps.")
    keys = {"count": 5, "baseline": 2, "confirm": False, "proposer": "random", "space": {"lr": [1.0, 0.01]}}
    camp.start(prefix="autoresearch/two", **keys)
    new = camp.over()
    assert new.reason.startswith("every point of the space is tried: ")
    (refused,) = {reason for hypothesis, reason in new.skipped if hypothesis.overrides == {"lr": 1.0}}
    assert refused.startswith("it is the same as #3 lr=1 of the campaign one, given up there (discarded: ")
    told = earlier_section(new.spec)
    assert "- kept: #2 lr=0.01: " in told and "(kept, not " in told
    assert "> its agent: #2 lr=0.01: lr below 0.1 helps." in told
    assert "- given up: #3 lr=1: " in told and "(discarded: task_pass_rate@1 0.1" in told
    shutil.rmtree(camp.places[0].path)
    assert earlier_section(new.spec) == ""
