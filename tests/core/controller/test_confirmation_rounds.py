"""Rounds of confirmation: from the plan to the verdicts, and what keeps a claim from being made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.controller import confirmation_rounds, scheduler


def test_a_round_of_confirmation_from_plan_to_verdict(records: Callable[..., Any]) -> None:
    made = records()
    assert confirmation_rounds.plan_round(made.state())[0] is None
    made.checked()
    made.idea("fake")
    made.run("fake", 0.7)
    made.idea("child", parent="fake")
    made.run("child", 0.69)
    state = made.state()
    planned, why = confirmation_rounds.plan_round(state, [state.by_slug("fake")])
    assert planned is not None and planned.candidates == (2,) and "fresh runs" in why
    made.note("confirming", round=1, candidates=[2], each=4, baseline=4)
    turns = []
    while found := confirmation_rounds.owed_to_round(made.state()):
        slug = found.idea.slug
        turns.append(slug)
        assert found.why == "confirm" and not confirmation_rounds.round_is_over(made.state())
        made.run(slug, 0.5 + len(turns) / 1000, why="confirm", round_number=1)
    assert sorted(turns) == ["baseline"] * 4 + ["fake"] * 4
    state = made.state()
    assert confirmation_rounds.round_is_over(state)
    said = made.apply(confirmation_rounds.judge_round(state, made.curves()))
    assert "not confirmed" in said[0] and said[1:] == ["idea 3 (child) was built on a demoted one"]
    after = made.state()
    assert (after.by_slug("fake").confirmed, after.by_slug("child").marked) == ("demoted", "fake")
    assert not after.open_round and after.best.slug != "fake"


def proved(made: Any, slug: str, **more: Any) -> tuple[str, str]:
    """A round of confirmation in which an idea is better by far; its claim, and what is said of it."""
    made.checked()
    made.note("confirming", round=1, candidates=[made.indexes[slug]], each=4, baseline=4)
    while found := confirmation_rounds.owed_to_round(made.state()):
        assert found.why == "confirm"
        one = found.idea.slug
        made.run(one, 0.5 + 0.2 * (one == slug) + 0.001 * (made.clock % 7), why="confirm", round_number=1, **more)
    said = made.apply(confirmation_rounds.judge_round(made.state(), made.curves()))
    idea = made.state().by_slug(slug)
    return (f"{idea.confirmed} ({idea.caveat})" if idea.caveat else idea.confirmed), said[0]


def test_a_claim_about_edited_code_says_where_it_trained(records: Callable[..., Any]) -> None:
    made = records()
    made.idea("code", kind="code")
    made.run("code", 0.7)
    made.idea("child", kind="config", parent="code")  # trains what was edited
    made.run("child", 0.7)
    made.idea("config", kind="config")
    made.run("config", 0.7)
    assert [made.state().by_slug(slug).edited for slug in ("code", "child", "config")] == [True, True, False]
    claim, said = proved(made, "child")
    assert claim == "confirmed (not sandboxed)" and said.endswith("(not sandboxed)")


@pytest.mark.parametrize("sandbox", ["", "bwrap"])
def test_a_claim_about_code_in_the_sandbox(records: Callable[..., Any], sandbox: str) -> None:
    made = records()
    made.idea("code", kind="code" if sandbox else "")
    made.run("code", 0.7, sandbox=sandbox)
    assert proved(made, "code", sandbox=sandbox)[0] == "confirmed"


def test_what_was_tampered_with_is_not_claimed(records: Callable[..., Any]) -> None:
    made = records()
    made.idea("code", kind="code")
    made.run("code", 0.7, flags="knobs.py:3 sleeps; tampered: it had a row")
    assert proved(made, "code") == ("undecided", "idea 2 (code): not claimed: tampered: it had a row")


def test_a_runner_that_dies_is_the_fault_of_code_that_can_end_it(records: Callable[..., Any]) -> None:
    made = records()
    for slug, kind, sandbox in (("person", "", ""), ("code", "code", ""), ("boxed", "code", "bwrap")):
        made.idea(slug, kind=kind)
        made.run(slug, None, "crash", ending="lost", failure="runner_died", sandbox=sandbox)
    state = made.state()
    assert [row.failure for row in state.by_slug("code").judged] == ["runner_died"], "it says something"
    assert not state.by_slug("person").judged and not state.by_slug("boxed").judged
    retries = []
    while found := scheduler.owed(made.state()):
        retries.append(found.idea.slug)
        made.run(found.idea.slug, 0.7, why="retry")
    assert set(retries) == {"person", "boxed"}
    made.run("code", 0.7, why="retest")
    assert proved(made, "code") == (
        "undecided",
        "idea 3 (code): not claimed: lost runs: 1 of its own, 0 of the baseline's",
    )
