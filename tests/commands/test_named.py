"""Which run, campaign or plan a name means, where several answer to it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoresearch.commands import name_lookup
from autoresearch.errors import NotFoundError
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.plans import plan_dir
from autoresearch.lab.runs import sessions

PARTS: Any = SimpleNamespace(index=SimpleNamespace(by_id=lambda name: name == "lr-ab12cd"))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], Any]:
    """What is known, by kind and name; filled in by each test."""
    found: dict[tuple[str, str], Any] = {}

    def finder(kind: str) -> Any:
        def find(name: str, parts: Any) -> Any:
            if (kind, name) not in found:
                raise NotFoundError(f"no {kind} of /here answers to {name!r}", hint="elsewhere: none", fix="look")
            return found[kind, name]

        return find

    campaigns = [SimpleNamespace(name="20260101-lr", campaign_dir="campaign")]
    monkeypatch.setattr(sessions, "find", finder("run"))
    monkeypatch.setattr(campaign_registry, "find", finder("campaign"))
    monkeypatch.setattr(campaign_registry, "known", lambda parts: campaigns)
    monkeypatch.setattr(plan_dir, "find_plan", finder("plan"))
    return found


def run(*, lives: bool) -> Any:
    return SimpleNamespace(kind="run", state=lambda: SimpleNamespace(lives=lives))


def campaign(*, lives: bool) -> Any:
    return SimpleNamespace(kind="campaign", controlled=lives, path=Path("/here/20260101-lr"))


def plan(*, lives: bool) -> Any:
    return SimpleNamespace(kind="plan", pursued=lives)


# what answers to `lr` (whether it lives, or None where there is none): run, campaign, plan; and which one is meant
MEANT = [
    ((True, None, None), "run"),
    ((False, None, None), "run"),
    ((None, False, None), "campaign"),
    ((None, None, False), "plan"),
    ((True, True, True), "run"),
    ((False, True, None), "campaign"),
    ((False, False, None), "run"),
    ((False, False, True), "plan"),
    ((False, None, False), "run"),
    ((None, False, True), "plan"),
    ((None, True, True), "campaign"),
    ((None, False, False), "campaign"),
]


@pytest.mark.parametrize(("lives", "kind"), MEANT)
def test_the_one_that_lives_else_the_run(
    known: dict[tuple[str, str], Any], lives: tuple[bool | None, ...], kind: str
) -> None:
    for name, make, alive in zip(("run", "campaign", "plan"), (run, campaign, plan), lives, strict=True):
        if alive is not None:
            known[name, "lr"] = make(lives=alive)
    found: Any = name_lookup.resolve("lr", PARTS)
    assert found.kind == kind


def test_a_full_id_and_last_mean_a_run_although_it_is_over(known: dict[tuple[str, str], Any]) -> None:
    for name in ("lr-ab12cd", "last", "/here/reports/lr"):
        known["run", name], known["campaign", name] = run(lives=False), campaign(lives=True)
        found: Any = name_lookup.resolve(name, PARTS)
        assert found.kind == "run", name


def test_the_newest_campaign_and_plan_have_names(known: dict[tuple[str, str], Any]) -> None:
    known["campaign", "last-campaign"], known["plan", "last-plan"] = campaign(lives=False), plan(lives=False)
    kinds: list[Any] = [name_lookup.resolve(name, PARTS) for name in ("last-campaign", "last-plan")]
    assert [one.kind for one in kinds] == ["campaign", "plan"]


@pytest.mark.parametrize("name", ["nobody", "last", "last-campaign", "last-plan", "", "x" * 5000, "a\0"])
def test_none_is_one_sentence(known: dict[tuple[str, str], Any], name: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        name_lookup.resolve(name, PARTS)
    assert caught.value.message.startswith("no ") and caught.value.fix == "look"


def test_a_report_is_of_the_campaign_unless_only_its_slug_was_typed(known: dict[tuple[str, str], Any]) -> None:
    known["plan", "lr"] = plan(lives=False)
    alone: Any = name_lookup.report_of("lr", PARTS)
    assert alone.kind == "plan"
    for name, kind in (("lr", "plan"), ("20260101-lr", "campaign"), ("", "campaign")):
        known["campaign", name] = campaign(lives=False)
        found: Any = name_lookup.report_of(name, PARTS)
        assert found.kind == kind, name


def test_a_command_about_runs_names_the_one_about_campaigns(known: dict[tuple[str, str], Any]) -> None:
    error = NotFoundError("no run answers", hint="h", fix="f")
    assert name_lookup.campaign_instead("lr", PARTS, error, "campaign stop") is error
    known["campaign", "lr"] = campaign(lives=True)
    other = name_lookup.campaign_instead("lr", PARTS, error, "campaign stop")
    assert (other.message, other.fix) == ("lr is a campaign", "autoresearch campaign stop lr")
