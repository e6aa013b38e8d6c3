"""Agenda and claims: which run comes next, from what was written down alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.campaign.spec import CampaignPhase, Rules
from autoresearch.lab.campaigns import campaign_status, confirmation_rounds, scheduler

pytestmark = pytest.mark.system


def bare(made: Any) -> Any:
    """The campaign without its baseline's rows."""
    state = made.state()
    state.baseline.runs.clear()
    state.baseline.rows.clear()
    return state


def wanted(found: Any) -> tuple[str, int, str] | None:
    return (found.idea.slug, found.replicate, found.why) if found else None


def test_the_baseline_comes_first_as_often_as_it_was_asked_for(campaign: Callable[..., Any]) -> None:
    made = campaign()
    state = made.state()
    assert scheduler.owed(state) is None and scheduler.baseline_done(state) and not scheduler.baseline_failed(state)
    more = replace(state, spec=replace(state.spec, replicates=5))
    assert wanted(scheduler.owed(more)) == ("baseline", 4, "baseline")
    assert not scheduler.baseline_done(more)
    none = bare(made)
    assert wanted(scheduler.owed(none)) == ("baseline", 1, "baseline")
    assert not scheduler.baseline_done(none)


def test_a_baseline_without_its_metric_runs_again_once_somebody_says_so(campaign: Callable[..., Any]) -> None:
    state = campaign().state()
    state.baseline.rows[:] = [replace(row, metric_value=None, status="crash") for row in state.baseline.rows]
    assert scheduler.baseline_failed(state) and scheduler.owed(state) is None
    state.again = 1
    assert not scheduler.baseline_failed(state)
    assert wanted(scheduler.owed(state)) == ("baseline", 4, "baseline")


def test_retests_are_owed_while_an_idea_looks_better(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("good", git=False)
    made.run("good", 0.60, "discard", curve=False)
    state = made.state()
    assert wanted(scheduler.owed(state)) == ("good", 2, "retest")
    assert not scheduler.decided(state, state.by_slug("good"))
    assert scheduler.attempts(state)[1].status == ""  # its proposer is not told yet
    for value in (0.61, 0.62, 0.60):
        made.run("good", value, "keep", curve=False)
    state = made.state()
    assert scheduler.owed(state) is None and scheduler.decided(state, state.by_slug("good"))
    made.idea("bad", git=False)
    made.run("bad", 0.3, "discard", curve=False)
    assert scheduler.owed(made.state()) is None


def test_a_lost_run_is_made_again_a_few_times_and_a_crash_never(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("lost", git=False)
    made.run("lost", None, "crash", failure="runner_died", curve=False)
    assert wanted(scheduler.owed(made.state())) == ("lost", 1, "retry")
    for _ in range(scheduler.MOST_RETRIES):
        made.run("lost", None, "crash", failure="runner_died", curve=False, replicate=1, why="retry")
    assert scheduler.owed(made.state()) is None
    made.idea("dead", git=False)
    made.run("dead", None, "crash", failure="cuda_oom", curve=False)
    assert scheduler.owed(made.state()) is None


def test_an_idea_that_has_its_branch_and_never_ran_is_taken_up_again(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("unborn", git=False)
    assert wanted(scheduler.unbegun(made.state())) == ("unborn", 1, "first")
    made.tell("unwanted", slug="unborn")
    assert scheduler.unbegun(made.state()) is None


def test_how_long_a_run_may_take(campaign: Callable[..., Any]) -> None:
    made = campaign(timeout_s=600.0)
    assert scheduler.expected_run_s(bare(made)) == 600.0  # nothing is known but the limit
    assert scheduler.expected_run_s(made.state()) == 300.0 * scheduler.MARGIN
    short = made.state()
    assert scheduler.expected_run_s(replace(short, spec=replace(short.spec, timeout_s=310.0))) == 310.0
    assert scheduler.reserve_s(short, 100.0) == 0.0  # nothing is kept that could be claimed
    made.idea("good", git=False)
    made.run("good", 0.7, curve=False)
    state = made.state()
    assert scheduler.reserve_s(state, 100.0) == 100.0 * state.spec.confirm_runs
    assert scheduler.reserve_s(replace(state, spec=replace(state.spec, confirm=False)), 100.0) == 0.0


@pytest.mark.parametrize(
    ("deaths", "trips"),
    [
        ([("oom", 0.1)] * 3, True),
        ([("oom", 0.1)] * 2, False),
        ([("oom", 0.1), ("oom", 0.1), ("nccl", 0.1)], False),  # not alike
        ([("oom", 0.1), ("oom", 4.0), ("oom", 0.1)], False),  # not fast: a good run takes 5 minutes
        ([("oom", 4.0), ("oom", 0.1), ("oom", 0.1), ("oom", 0.1)], True),
    ],
)
def test_the_circuit_breaker(campaign: Callable[..., Any], deaths: list[tuple[str, float]], trips: bool) -> None:
    made = campaign()
    for number, (kind, minutes) in enumerate(deaths):
        made.idea(f"dies-{number}", git=False)
        made.run(f"dies-{number}", None, "crash", failure=kind, elapsed_min=minutes, curve=False)
    state = made.state()
    why = scheduler.tripped(state, 0.0)
    assert bool(why) is trips
    assert not trips or why == "the last 3 ideas died alike within 2.5 min: oom"
    assert scheduler.tripped(state, made.clock + 1000) == ""  # deaths before somebody said `resume` are forgiven


def test_facts_for_the_rules(campaign: Callable[..., Any]) -> None:
    made = campaign(rules=Rules(count=5))
    facts = scheduler.facts(made.state(), 7.0, conceived=2)
    assert (facts.attempted, facts.now, facts.best) == (3, 7.0, 0.5)


def test_a_round_of_confirmation_from_plan_to_verdict(campaign: Callable[..., Any]) -> None:
    made = campaign()
    assert confirmation_rounds.plan_round(made.state())[0] is None
    made.tell("seed_check", seen=True, reason="it works", by="recipe key seed", runs=3, values=9, exact=True, copies=[])
    made.idea("fake", git=False)
    made.run("fake", 0.7, curve=False)
    made.idea("child", parent="fake", git=False)
    made.run("child", 0.69, curve=False)
    state = made.state()
    planned, why = confirmation_rounds.plan_round(state, [state.by_slug("fake")])
    assert planned is not None and planned.candidates == (2,) and "fresh runs" in why
    made.tell("confirming", round=1, candidates=[2], each=4, baseline=4)
    turns = []
    while found := confirmation_rounds.owed_to_round(made.state()):
        slug, _, reason = wanted(found) or ("", 0, "")
        turns.append(slug)
        assert reason == "confirm" and not confirmation_rounds.round_is_over(made.state())
        made.run(slug, 0.5 + len(turns) / 1000, why="confirm", curve=False)
        made_round(made, slug)
    assert sorted(turns) == ["baseline"] * 4 + ["fake"] * 4
    state = made.state()
    assert confirmation_rounds.round_is_over(state)
    said = confirmation_rounds.judge_round(state, made.place)
    assert "not confirmed" in said[0] and said[1:] == ["idea 3 (child) was built on a demoted one"]
    after = made.state()
    assert (after.by_slug("fake").confirmed, after.by_slug("child").marked) == ("demoted", "fake")
    assert not after.open_round and after.best.slug != "fake"


def proved(made: Any, slug: str, **more: Any) -> tuple[str, str]:
    """A round of confirmation in which an idea is better by far; its claim, and what is said of it."""
    made.tell("seed_check", seen=True, reason="it works", by="recipe key seed", runs=3, values=9, exact=True, copies=[])
    made.tell("confirming", round=1, candidates=[made.indexes[slug]], each=4, baseline=4)
    while found := confirmation_rounds.owed_to_round(made.state()):
        assert found.why == "confirm"
        one = found.idea.slug
        made.run(one, 0.5 + 0.2 * (one == slug) + 0.001 * (made.clock % 7), why="confirm", curve=False, **more)
        made_round(made, one)
    said = confirmation_rounds.judge_round(made.state(), made.place)
    idea = made.state().by_slug(slug)
    return (f"{idea.confirmed} ({idea.caveat})" if idea.caveat else idea.confirmed), said[0]


def test_a_claim_about_edited_code_says_where_it_trained(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("code", kind="code", git=False)
    made.run("code", 0.7, curve=False)
    made.idea("child", kind="config", parent="code", git=False)  # trains what was edited
    made.run("child", 0.7, curve=False)
    made.idea("config", kind="config", git=False)
    made.run("config", 0.7, curve=False)
    assert [made.state().by_slug(slug).edited for slug in ("code", "child", "config")] == [True, True, False]
    claim, said = proved(made, "child")
    assert claim == "confirmed (not sandboxed)" and said.endswith("(not sandboxed)")


@pytest.mark.parametrize("sandbox", ["", "bwrap"])
def test_a_claim_about_code_in_the_sandbox(campaign: Callable[..., Any], sandbox: str) -> None:
    made = campaign()
    made.idea("code", kind="code" if sandbox else "", git=False)
    made.run("code", 0.7, curve=False, sandbox=sandbox)
    assert proved(made, "code", sandbox=sandbox)[0] == "confirmed"


def test_what_was_tampered_with_is_not_claimed(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("code", kind="code", git=False)
    made.run("code", 0.7, curve=False, flags="knobs.py:3 sleeps; tampered: it had a row")
    assert proved(made, "code") == ("undecided", "idea 2 (code): not claimed: tampered: it had a row")


def test_a_runner_that_dies_is_the_fault_of_code_that_can_end_it(campaign: Callable[..., Any]) -> None:
    made = campaign()
    for slug, kind, sandbox in (("person", "", ""), ("code", "code", ""), ("boxed", "code", "bwrap")):
        made.idea(slug, kind=kind, git=False)
        made.run(slug, None, "crash", ending="lost", failure="runner_died", curve=False, sandbox=sandbox)
    state = made.state()
    assert [row.failure for row in state.by_slug("code").judged] == ["runner_died"], "it says something"
    assert not state.by_slug("person").judged and not state.by_slug("boxed").judged
    retries = []
    while found := scheduler.owed(made.state()):
        retries.append(found.idea.slug)
        made.run(found.idea.slug, 0.7, why="retry", curve=False)
    assert set(retries) == {"person", "boxed"}
    made.run("code", 0.7, why="retest", curve=False)
    assert proved(made, "code") == (
        "undecided",
        "idea 3 (code): not claimed: lost runs: 1 of its own, 0 of the baseline's",
    )


def test_a_reboot_is_nobodys_fault(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("code", kind="code", git=False)
    made.run("code", None, "crash", ending="lost", failure="rebooted", curve=False)
    assert wanted(scheduler.owed(made.state())) == ("code", 1, "retry")


def made_round(made: Any, slug: str) -> None:
    """Say of the last run of an idea, in the journal, that it is of round 1."""
    lines = made.place.journal.read_text().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if '"prepared"' in line and f'"{slug}-' in line)
    lines[last] = lines[last].replace('"seed"', '"round": 1, "seed"')
    made.place.journal.write_text("".join(lines))


def test_a_campaign_that_ends_while_somebody_looks_is_not_dead(campaign: Callable[..., Any]) -> None:
    made = campaign()
    before = made.state()
    assert campaign_status.phase_now(made.place, before) == "dead"
    made.tell("state", state="ended", reason="stop condition met")
    assert campaign_status.phase_now(made.place, before) == "ended"
    assert campaign_status.reason_now(made.place, before, CampaignPhase.ENDED) == "stop condition met"
