"""The history of a campaign always knows what reading everything would tell."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.controller import rules
from autoresearch.lab.campaigns.campaign_history import CampaignHistory

pytestmark = pytest.mark.system


def same(made: Any, history: CampaignHistory) -> None:
    """What was brought up to date is what reading all of it again tells."""
    state, fresh = history.state(), made.state()
    assert state == fresh
    assert rules.facts(state, made.clock) == rules.facts(fresh, made.clock)
    assert (state.best and state.best.slug) == (fresh.best and fresh.best.slug)


@pytest.mark.parametrize("seed", range(2))
def test_it_grows_as_it_would_be_read(campaign: Callable[..., Any], seed: int) -> None:
    chance, made = random.Random(seed), campaign()
    history = CampaignHistory(made.place)
    same(made, history)
    state = history.state()
    for n in range(12):
        slug = f"idea-{n}"
        what = chance.choice(["keep", "discard", "crash", "smoke", "withdrawn", "demoted", "rules", "skipped"])
        made.idea(slug, git=False, parent=chance.choice(["baseline", *list(made.indexes)[-2:]]))
        if chance.random() < 0.5:
            same(made, history)
        if what in ("keep", "discard", "demoted", "smoke"):
            for _ in range(chance.randint(1, 4)):
                made.run(slug, chance.gauss(0.5, 0.1), "discard" if what == "discard" else "keep", curve=False)
        if what == "crash":
            made.run(slug, None, "crash", curve=False, failure=chance.choice(["oom", "runner_died"]))
        if what == "smoke":
            made.verdict("smoke", slug, run=f"{slug}-000001")
        if what == "withdrawn":
            told = {"index": made.indexes[slug], "run": f"{slug}-x", "run_dir": "/x", "replicate": 1, "why": "first"}
            made.tell("prepared", **told)
            history.state()
            made.tell("withdrawn", run=f"{slug}-x")
        if what == "demoted":
            made.verdict("demoted", slug)
        if what == "rules":
            made.tell("rules", count=20 + n)
        if what == "skipped":
            made.tell("skipped", hypothesis={"slug": "again", "sentence": "s"}, reason="equal")
        same(made, history)
    assert history.state() is state, "one object, brought up to date"


def test_half_a_line_waits_for_its_other_half(lived: Any) -> None:
    history, path = CampaignHistory(lived.place), lived.place.events
    before = path.stat().st_size
    lived.tell("unwanted", slug="now")
    whole = path.read_bytes()
    path.write_bytes(whole[: before + 20])
    assert "now" not in history.state().unwanted
    path.write_bytes(whole)
    same(lived, history)
    assert "now" in history.state().unwanted


def test_a_record_that_another_file_took_the_place_of_is_read_again(lived: Any) -> None:
    history = CampaignHistory(lived.place)
    history.state()
    lines = lived.place.events.read_bytes().splitlines(keepends=True)
    fresh = lived.place.path / "fresh"
    fresh.write_bytes(b"".join(lines[:20]))
    fresh.replace(lived.place.events)
    assert len(history.state().rows) < len(lines)
    same(lived, history)
