"""A stage's campaign that does not go on by itself: paused, out of ideas, without a controller."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.plans.view import StageRun
from autoresearch.lab.campaign_setup import controller_session
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.plans import stages
from autoresearch.lab.plans.plan_dir import read_view
from autoresearch.lab.plans.run_stages import in_pursuit, pursue
from autoresearch.lab.plans.stage_conclusion import conclude_stage
from autoresearch.records.campaign_records import CampaignDir, add, entries
from autoresearch.records.rundir import locked

pytestmark = pytest.mark.system

GOOD = {"lr-high": ("keep", 0.6), "lr-low": ("discard", 0.4)}


@contextlib.contextmanager
def controlled(there: CampaignDir, monkeypatch: pytest.MonkeyPatch, obey: Callable[[], object]) -> Iterator[None]:
    """A controller lives, and does something whenever the plan looks away."""
    monkeypatch.setattr(stages, "time", SimpleNamespace(sleep=lambda _: obey()))
    with locked(there.lock):
        yield


def campaign(yard: Any, **journal: object) -> CampaignDir:
    """The first stage's campaign, begun and not over: the journal's last word is what is given."""
    yard.results = {"screen": GOOD}
    plan_dir = yard.approved()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "follow", lambda *_, **__: CampaignPhase.PAUSED)
        with in_pursuit(plan_dir):
            pursue(plan_dir, yard.parts, yard.said.append)
    there = stages.campaign_dir_of(plan_dir, read_view(plan_dir).runs[0])
    add(there.journal, "state", **journal)
    return there


def end(there: CampaignDir, **told: object) -> None:
    if told:
        add(there.journal, "told", **told)
    add(there.journal, "state", state="ended", reason="over")


def requests(there: CampaignDir) -> list[str]:
    return [str(line["do"]) for line in entries(there.requests)]


def deviations_of(yard: Any, there: CampaignDir) -> list[str]:
    """Those that the record of its conclusion lists."""
    run = StageRun(1, "screen", 1, f"autoresearch/{there.path.name}")
    return list(conclude_stage(run, yard.draft().plan.stage("screen"), there)["deviations"])


def test_one_that_has_used_up_its_ideas_ends_with_those(yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = campaign(yard, state="waiting", reason="proposer exhausted")
    add(there.journal, "rules", count=9)  # somebody wanted more than there are

    def obey() -> None:
        last = list(entries(there.requests))[-1]
        add(there.journal, "rules", count=last["count"])
        end(there)

    with controlled(there, monkeypatch, obey):
        assert stages.follow(there, yard.parts, yard.said.append) is CampaignPhase.ENDED
    assert requests(there) == ["set"] and CampaignHistory(there).state().spec.rules.count == 3
    assert deviations_of(yard, there)[1] == ("stop rules changed to count 3 (its ideas were used up)")


def test_one_that_pauses_by_itself_waits_for_a_person(yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = campaign(yard, state="paused", reason="no baseline run yields the metric")
    with controlled(there, monkeypatch, lambda: pytest.fail("it waited")):
        assert stages.follow(there, yard.parts, yard.said.append) is CampaignPhase.PAUSED
    assert requests(there) == []


def test_where_nobody_is_there_it_ends_with_what_it_has(yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = campaign(yard, state="paused", reason="no baseline run yields the metric")

    def obey() -> None:
        last = list(entries(there.requests))[-1]
        end(there, how=last["do"], reason=last["reason"])

    with controlled(there, monkeypatch, obey):
        assert stages.follow(there, yard.parts, yard.said.append, alone=True) is CampaignPhase.ENDED
    assert requests(there) == ["drain"]
    (told,) = deviations_of(yard, there)
    assert told.startswith("it was told to drain: it paused (no baseline run yields the metric)")


def test_what_a_person_paused_stays_paused_though_nobody_is_there(yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = campaign(yard, state="paused", reason="lunch")
    add(there.requests, "pause", reason="lunch")
    with controlled(there, monkeypatch, lambda: pytest.fail("it waited")):
        assert stages.follow(there, yard.parts, yard.said.append, alone=True) is CampaignPhase.PAUSED
    assert requests(there) == ["pause"]


def test_a_controller_that_dies_again_and_again_is_given_up(yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = campaign(yard, state="running", reason="")
    started: list[str] = []
    monkeypatch.setattr(controller_session, "start_controller", lambda *_: started.append("one"))
    monkeypatch.setattr(stages, "time", SimpleNamespace(sleep=lambda _: None))
    assert stages.follow(there, yard.parts, yard.said.append) is CampaignPhase.DEAD
    assert len(started) == stages.MOST_RESTARTS


def test_what_the_plan_did_not_say_is_told(yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = campaign(yard, state="running", reason="")
    add(there.journal, "rules", count=9)
    add(there.journal, "unwanted", slug="lr-low", reason="too slow")
    add(there.journal, "fixed", index=2, commit="c", slug="lr-high", note="a typo")
    add(there.requests, "add")
    end(there)
    told = deviations_of(yard, there)
    assert told == [
        "stop rules changed to count 9 (by `campaign set`)",
        "idea lr-low was skipped: too slow",
        "idea lr-high was repaired: a typo",
        "ideas were added by hand (`campaign add`: 1)",
    ]
