"""`after: NAME`: a campaign that begins when another one is over, and what becomes of it otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir

pytestmark = pytest.mark.system

QUEUE = [{"slug": "worse", "overrides": {"lr": 1}, "parent": "baseline"}]


def begun(camp: Any) -> Any:
    """A campaign that is running; its two runs end once `camp.go` is there."""
    camp.recipe(mode="hold")
    keys = {"queue": camp.ideas(*QUEUE), "confirm": False, "retests": 0, "count": 2}
    return camp.bench.ask("campaign", camp.file(**keys), "--yes", "--detach")


def after(camp: Any, name: str, *flags: str, **keys: object) -> Any:
    keys = {"queue": "ideas.yaml", "confirm": False, "retests": 0, "after": "one", **keys}
    path = camp.file(f"{name}.yaml", prefix=f"autoresearch/{name}", **keys)
    return camp.bench.ask("campaign", path, "--yes", *flags)


def reasons(directory: str) -> list[str]:
    lines = campaign_records.entries(CampaignDir(Path(directory)).journal)
    return [str(line["reason"]) for line in lines if line["do"] == "successor"]


@pytest.mark.waits
def test_it_begins_at_the_end_of_the_other_one(camp: Any) -> None:
    bench, first = camp.bench, begun(camp)
    waits = after(camp, "two", "--count", "2")
    assert (waits["state"], waits["after"], waits["if"]) == ("waiting", "one", "ended")
    assert after(camp, "two", "--count", "2")["state"] == "waiting", "typed again, it is there once"
    after(camp, "three", **{"if": "confirmed", "count": 2})
    status = bench.here("campaign", "status", "one")[1]
    assert status.count("\nthen: ") == 2 and "three.yaml, if an idea is confirmed" in status
    camp.go.touch()
    bench.until(lambda: bench.ask("campaign", "status", "one")["state"] == "ended")
    assert reasons(first["directory"]) == ["", "one confirmed no idea"]
    bench.until(lambda: bench.ask("campaign", "status", "two")["state"] == "ended")
    assert bench.ask("campaign", "status", "two")["attempted"] == 2
    bench.ask("campaign", "status", "three", check=4)
    late = camp.file("four.yaml", after="one", prefix="autoresearch/four", queue="ideas.yaml", confirm=False, count=2)
    over = bench.ask("campaign", late, "--yes", check=5)
    assert over["error"]["message"] == "one is over already"


def test_after_one_that_somebody_stopped_nothing_begins(camp: Any) -> None:
    bench, first = camp.bench, begun(camp)
    after(camp, "two", count=2)
    bench.ask("campaign", "stop", "one", "--reason", "enough")
    bench.until(lambda: bench.ask("campaign", "status", "one")["state"] == "ended")
    assert reasons(first["directory"]) == ["one was stopped"]
    bench.ask("campaign", "status", "two", check=4)
