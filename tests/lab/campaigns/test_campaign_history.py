"""The history of a campaign reads only what was added, and always knows what reading everything would tell."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.campaign.fold import fold
from autoresearch.core.campaign.judgement import decision_of, incumbent, noise_without, pending, usual_sd
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller import rules
from autoresearch.core.statistics.noise import noise_of, survivors
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.records import campaign_records
from autoresearch.records.ledger import Ledger

pytestmark = pytest.mark.system


def whole(made: Any) -> CampaignState:
    """Everything read again."""
    rows = list(Ledger(made.place.ledger).rows())
    read = campaign_records.entries
    return fold(campaign_records.read_spec(made.place), read(made.place.journal), rows, read(made.place.verdicts))


def same(made: Any, history: CampaignHistory) -> None:
    state, fresh = history.state(), whole(made)
    assert state == fresh
    slow = CampaignState(fresh.spec, fresh.ideas)  # nothing is kept for it: every question is worked out
    names = [[idea.slug for idea in one.keeps] + [run.run for _, run in one.live] for one in (state, slow)]
    assert names[0] == names[1]
    assert (state.best and state.best.slug) == (slow.best and slow.best.slug)
    assert (state.attempted, state.gpu_hours, state.rows) == (slow.attempted, slow.gpu_hours, slow.rows)
    facts = [rules.facts(one, made.clock) for one in (state, fresh)]
    assert facts[0] == facts[1]
    assert [idea.values for idea in state.ideas] == [idea.values for idea in fresh.ideas]


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
            made.run(slug, None, "crash", curve=False, failure=chance.choice(["oom", "runner_died", "pruned"]))
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


def test_nothing_is_read_where_nothing_was_added(lived: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    history = CampaignHistory(lived.place)
    history.state()
    read: list[int] = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, n, at: read.append(n) or real(fd, n, at))
    history.state()
    assert read == []
    lived.idea("one-more", git=False)
    history.state()
    assert len(read) < 12, "one file, and the digest of what was read of it before"


@pytest.mark.parametrize("inode", ["the same", "another"])
def test_a_ledger_that_was_edited_is_read_again(lived: Any, inode: str) -> None:
    history = CampaignHistory(lived.place)
    before = history.state().by_slug("lr-up")
    assert before
    text = lived.place.ledger.read_text().replace("0.58", "0.91", 1) + "\n"
    if inode == "another":
        lived.place.ledger.unlink()
    lived.place.ledger.write_text(text)
    same(lived, history)
    after = history.state().by_slug("lr-up")
    assert after and after.values[0] == 0.91


def test_an_edit_far_from_the_end_is_seen_though_the_file_grew(lived: Any) -> None:
    history = CampaignHistory(lived.place)
    for _ in range(40):
        lived.run("flat", 0.6, "discard", curve=False)
    same(lived, history)
    text = lived.place.ledger.read_text()
    assert text.rfind("0.58") < len(text) - 4096
    lived.place.ledger.write_text(text.replace("\t0.58\t", "\t0.91\t", 1) + "\n")
    same(lived, history)


def test_a_ledger_whose_last_line_lacks_its_end(lived: Any) -> None:
    history = CampaignHistory(lived.place)
    lived.place.ledger.write_bytes(lived.place.ledger.read_bytes().rstrip(b"\n"))
    same(lived, history)
    lived.run("flat", 0.6, "discard", curve=False)
    same(lived, history)


def test_half_a_line_of_the_journal_waits_for_its_other_half(lived: Any) -> None:
    history = CampaignHistory(lived.place)
    history.state()
    with lived.place.journal.open("a") as file:
        file.write('{"t": 1, "do": "unwanted", "slu')
    same(lived, history)
    with lived.place.journal.open("a") as file:
        file.write('g": "now"}\n')
    same(lived, history)
    assert "now" in history.state().unwanted


def test_a_row_that_comes_before_its_idea(campaign: Callable[..., Any]) -> None:
    made = campaign()
    history = CampaignHistory(made.place)
    made.indexes["later"] = 2
    made.heads["later"] = "0" * 40
    made.run("later", 0.6, curve=False)
    assert history.state().by_slug("later") is None
    del made.indexes["later"]
    made.idea("later", git=False)
    same(made, history)


def test_files_that_vanish(lived: Any) -> None:
    history = CampaignHistory(lived.place)
    history.state()
    lived.place.verdicts.unlink()
    lived.place.ledger.unlink()
    same(lived, history)


def decision_in_full(state: CampaignState, idea: Any) -> Any:
    """`pending` without its short cuts."""
    rest = CampaignState(state.spec, [other for other in state.ideas if other is not idea])
    theirs = None if idea.hypothesis.is_baseline else rest.best
    assert idea.hypothesis.is_baseline or incumbent(state, idea) is theirs
    sd = usual_sd(state)
    noise = noise_of(survivors(state.spec.objective, other.values, sd) for other in state.ideas if other is not idea)
    quick = noise_without(state, idea)
    assert quick.df == noise.df and quick.variance == pytest.approx(noise.variance, rel=1e-9)
    past = [None if row.status == "crash" else row.metric_value for row in idea.judged]
    return decision_of(state, idea, past, simpler=idea.simpler, smoke=idea.hypothesis.smoke)


@pytest.mark.parametrize("seed", (0, 1))
def test_short_cuts_owe_the_same_re_tests(campaign: Callable[..., Any], seed: int) -> None:
    chance, made = random.Random(seed), campaign()
    for n in range(25):
        slug = f"idea-{n}"
        parent = chance.choice(["baseline", *list(made.indexes)])
        made.idea(slug, git=False, parent=parent, simpler=chance.random() < 0.1, smoke=chance.random() < 0.1)
        status = chance.choice(["keep", "discard", "discard", "discard", "crash"])
        for _ in range(chance.choice([1, 1, 1, 2, 6])):
            value = None if status == "crash" else chance.gauss(0.52, 0.03)
            made.run(slug, value, status, curve=False)
        if chance.random() < 0.1:
            made.verdict("demoted", slug)
    state = whole(made)
    owed = 0
    for idea in state.ideas:
        fast, full = pending(state, idea), decision_in_full(state, idea)
        again = full.retest and (idea.status != "keep" or idea is state.best)  # as long as it leads
        assert (fast is not None and fast.retest) == again, idea.slug
        owed += again
    assert owed
