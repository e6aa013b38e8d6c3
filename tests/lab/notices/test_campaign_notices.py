"""What a campaign has to say, from its records alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.lab.notices.campaign_notices import due_notices, end_notice

pytestmark = pytest.mark.system
HOST = "box"


def due(made: Any) -> dict[str, Any]:
    """The notices that are due, by kind."""
    return {str(one.kind): one for one in due_notices(made.state(), made.clock, HOST)}


def test_a_confirmed_idea_comes_with_its_interval(lived: Any) -> None:
    """Fresh runs of before an end are no news when the campaign is continued."""
    best = lived.indexes["best"]
    lived.tell("prepared", index=best, run="best-fresh", run_dir="", replicate=9, why="confirm", round=1)
    lived.tell("confirming", round=1, candidates=[best], sizes=[4])
    found = due(lived)["confirmed"]
    assert found.title == f"{lived.spec.name}: #{lived.indexes['best']} lr=0.3 (on #2) is confirmed"
    assert "90 % interval +0.05 to +0.25; 4 fresh runs against 5" in found.lines[0]
    assert found.lines[1:] == (f"next: autoresearch report {lived.spec.name}", f"on box: {lived.spec.directory}")
    lived.tell("state", state="ended", reason="stop condition met")
    assert "confirmed" not in due(lived)


def test_a_pause_says_why_and_how_it_goes_on(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.tell("state", state="paused", reason="no run of the baseline printed loss: crashed")
    first = due(made)["pause"]
    assert first.lines[0] == "no run of the baseline printed loss: crashed"
    assert first.lines[2] == f"next: autoresearch campaign resume {made.spec.name}"
    made.tell("state", state="running", reason="")
    assert due(made) == {}
    made.tell("state", state="paused", reason="circuit breaker: the last 3 ideas died alike within 0.1 min: oom")
    storm = due(made)
    assert set(storm) == {"crash_storm"} and storm["crash_storm"].key != first.key
    assert storm["crash_storm"].title.endswith("paused, its ideas crash")
    assert storm["crash_storm"].lines[0] == "the last 3 ideas died alike within 0.1 min: oom"


def test_a_campaign_without_ideas_waits_for_one(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.tell("state", state="waiting", reason="proposer exhausted")
    found = due(made)["waiting"]
    assert found.lines[:2] == (
        "proposer exhausted",
        f"next: autoresearch campaign add {made.spec.name} --set KEY=VALUE",
    )


def test_a_disk_that_was_full_for_a_run_is_told_once_an_hour(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("big")
    rows = [made.run("big", None, "crash", failure="disk", ended=made.clock + 10 * n, curve=False) for n in (1, 2)]
    found = due(made)["disk_full"]
    assert found.key == f"disk_full:{rows[0].run_id}"
    assert found.lines[1] == f"next: autoresearch explain {rows[0].run_id}"
    made.clock += 4000
    assert due(made) == {}


def test_the_end_says_how_much_was_found_and_where(lived: Any) -> None:
    state = lived.state()
    found = end_notice(state, "stop condition met: 9/9 ideas attempted", HOST)
    assert found.key == "campaign_end:1"
    assert found.title == f"{lived.spec.name}: over after 10 of 12 ideas, 3 kept, 1 confirmed"
    assert found.lines[0] == "stop condition met: 9/9 ideas attempted"
    assert found.lines[1].startswith(f"best: #{lived.indexes['best']} lr=0.3 (on #2): confirmed, ")
    assert found.lines[2] == f"next: autoresearch report {lived.spec.name}"
    lived.tell("state", state="ended", reason="x")
    lived.tell("state", state="running", reason="")
    assert end_notice(lived.state(), "y", HOST).key == "campaign_end:2"
