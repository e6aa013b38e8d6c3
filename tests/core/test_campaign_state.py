"""CampaignState: everything is folded from journal, ledger and verdicts, in whatever order a crash left them."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.campaign.claim import ClaimEstimate
from autoresearch.core.campaign.fold import Fold, fold
from autoresearch.core.campaign.spec import CampaignPhase, Rules, stand
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller import rules
from autoresearch.core.run.ledger_row import LedgerRow
from tests.specs import campaign_spec, events

SPEC = campaign_spec(rules=Rules(count=5), gpus_per_run=2)


def idea(index: int, slug: str, parent: str = "baseline") -> dict[str, Any]:
    return {"do": "idea", "index": index, "hypothesis": {"slug": slug, "sentence": slug}, "parent": parent}


def run(index: int, name: str, replicate: int = 1, why: str = "first", **more: Any) -> list[dict[str, Any]]:
    told = {"index": index, "run": name, "run_dir": "", "replicate": replicate, "why": why, **more}
    return [{"do": "prepared", **told}, {"do": "started", "run": name}]


def row(index: int, name: str, value: float | None, status: str = "keep", **more: Any) -> LedgerRow:
    return LedgerRow(index=index, run_id=name, metric_value=value, status=status, elapsed_min=30.0, **more)


JOURNAL = [
    idea(1, "baseline", ""),
    *run(1, "b-1", 1, "baseline"),
    *run(1, "b-2", 2, "baseline"),
    idea(2, "good"),
    *run(2, "g-1"),
    *run(2, "g-2", 2, "retest"),
    *run(2, "g-3", 3, "confirm", round=1),
    idea(3, "dead", "good"),
    *run(3, "d-1"),
]
ROWS = [
    row(1, "b-1", 0.4, ended=1.0),
    row(1, "b-2", 0.6, ended=2.0),
    row(2, "g-1", 0.7, "discard", ended=3.0),
    row(2, "g-2", 0.9, ended=4.0),
    row(2, "g-3", 0.1, ended=9.0),
    row(3, "d-1", None, "crash", ended=5.0),
]


def state(journal: list[dict[str, Any]] = JOURNAL, rows: list[LedgerRow] = ROWS, *verdicts: Any) -> CampaignState:
    return fold(SPEC, events(journal, rows, verdicts))


def test_values_are_of_the_search_and_the_status_is_the_last_word() -> None:
    found = state()
    good = found.by_slug("good")
    assert good is not None and found.baseline is not None
    assert (good.values, good.value, good.status, good.kept) == ([0.7, 0.9], 0.8, "keep", True)
    assert good.fresh_values(1) == [0.1] and good.fresh_values(2) == []
    assert good.decided == 4.0
    assert found.baseline.value == 0.5
    assert found.best is good and found.attempted == 3
    assert found.gpu_hours == 6 * 0.5 * 2
    assert [a.status for a in found.attempts()] == ["keep", "keep", "crash"]


def test_what_was_prepared_and_never_started_is_no_attempt() -> None:
    prepared = [*JOURNAL, idea(4, "next"), run(4, "n-1")[0]]
    assert state(prepared).attempted == 3
    assert state([*prepared, {"do": "started", "run": "n-1"}]).attempted == 4
    gone = state([*prepared, {"do": "withdrawn", "run": "n-1"}])
    assert gone.attempted == 3 and not gone.ideas[3].runs
    live = state([*prepared, {"do": "started", "run": "n-1"}])
    assert [(i.slug, r.run) for i, r in live.live] == [("next", "n-1")]
    assert live.attempts()[3].status == ""


def test_lines_that_stand_twice_or_that_nobody_knows_change_nothing() -> None:
    twice = [line for line in JOURNAL for _ in range(2) if line["do"] != "prepared" or _ == 0]
    unknown = [{"do": "of a newer version"}, {"no": "do"}, {"do": "prepared", "index": 99, "run": "?"}]
    found, other = state(), state([*twice, *unknown], [*ROWS, *ROWS, row(77, "of nobody", 1.0)])
    assert [(i.slug, i.values, len(i.runs)) for i in other.ideas] == [
        (i.slug, i.values, len(i.runs)) for i in found.ideas
    ]


def test_line_by_line_it_comes_to_the_same() -> None:
    """After a repair by an agent, what ended an earlier run is excused no more."""
    journal = [*JOURNAL, {"do": "fixed", "index": 3, "commit": "f", "turns": ()}]
    rows = [*ROWS[:-1], row(3, "d-1", None, "crash", failure="disk")]
    torn = Fold(SPEC)
    torn.add(events(JOURNAL, rows))
    assert torn.state.ideas[2].judged == []
    torn.add(journal[-1:])
    assert [i.judged for i in torn.state.ideas] == [i.judged for i in state(journal, rows).ideas]


def test_lines_with_the_wrong_content_are_passed_over_and_told() -> None:
    wrong = [
        {"do": "idea", "index": 4, "hypothesis": None},
        {"do": "idea", "hypothesis": {"slug": "x", "sentence": "x"}},
        {"do": "prepared", "index": []},
        {"do": "state", "state": "dancing"},
        {"do": "request", "upto": "soon"},
        {"do": "confirming", "round": 1},
        {"do": "rules", "count": {}},
    ]
    told = [line | {"seq": n} for n, line in enumerate([*wrong, *JOURNAL, {"do": "prepared", "index": 2}], 1)]
    found = state(told)
    assert found.damaged == [*range(1, len(wrong) + 1), len(told)]
    assert [(i.slug, i.values, len(i.runs)) for i in found.ideas] == [
        (i.slug, i.values, len(i.runs)) for i in state().ideas
    ]


def test_excused_runs_smoke_and_crashes_do_not_speak_for_an_idea() -> None:
    rows = [row(2, "g-1", 0.7, failure="runner_died"), row(2, "g-2", 0.9, "crash")]
    found = state(JOURNAL, rows).by_slug("good")
    assert found is not None
    assert [r.run_id for r in found.judged] == ["g-2"] and found.values == []
    smoke = state(JOURNAL, ROWS, {"do": "smoke", "index": 2, "run": "g-2"}).by_slug("good")
    assert smoke is not None and (smoke.values, smoke.status) == ([0.7], "discard")
    stopped = state(JOURNAL, [row(2, "g-1", 0.7), row(2, "g-2", 0.9, "discard", ending="stopped")]).by_slug("good")
    assert stopped is not None and (stopped.values, stopped.status) == ([0.7], "keep"), "a stop takes nothing back"
    infinite = state(JOURNAL, [row(2, "g-1", float("nan")), row(2, "g-2", float("inf"))]).by_slug("good")
    assert infinite is not None and infinite.values == [] and infinite.value is None


def test_the_estimate_of_a_claim_is_that_of_its_last_verdict() -> None:
    old = {"do": "undecided", "index": 2}
    new = {"do": "confirmed", "index": 2, "gain": 0.2, "gain_low": 0.05, "gain_high": 0.35,
           "coverage": 0.9, "value": 0.7, "n": 6, "n_baseline": 5, "failed": 1, "failed_baseline": 0}  # fmt: skip
    found = state(JOURNAL, ROWS, old, new).by_slug("good")
    assert found is not None
    assert found.claim == ClaimEstimate("confirmed", "", 0.2, 0.05, 0.35, 0.9, 0.7, 6, 5, 1, 0)
    before = state(JOURNAL, ROWS, old).by_slug("good")
    assert before is not None and before.claim == ClaimEstimate("undecided")


@pytest.mark.parametrize("word", [None, float("nan"), float("inf")])
def test_what_is_no_number_in_a_verdict_is_unknown(word: Any) -> None:
    verdict = {"do": "undecided", "gain": word, "gain_low": word, "value": word}
    assert ClaimEstimate.of_verdict(verdict) == ClaimEstimate("undecided")


def test_a_demoted_one_is_the_best_no_more() -> None:
    found = state(JOURNAL, ROWS, {"do": "demoted", "index": 2})
    assert found.best is found.baseline and found.best is not None
    good = found.by_slug("good")
    assert good is not None and not good.kept and good.status == "keep"
    again = state(JOURNAL, ROWS, {"do": "demoted", "index": 2}, {"do": "confirmed", "index": 2})
    assert again.best is again.by_slug("good")
    marked = state(JOURNAL, ROWS, {"do": "marked", "index": 3, "of": "good"}).by_slug("dead")
    assert marked is not None and marked.marked == "good"


def test_state_requests_rounds_and_wishes() -> None:
    plan = {"do": "confirming", "round": 1, "candidates": [2], "each": 4, "baseline": 4}
    lines: list[dict[str, Any]] = [
        {"do": "state", "state": "paused", "reason": "lunch"},
        {"do": "request", "upto": 3},
        {"do": "unwanted", "slug": "x"},
        {"do": "told", "how": "drain"},
        {"do": "again", "after": 2},
        {"do": "skipped", "hypothesis": {"slug": "twin", "sentence": "t"}, "reason": "the same as idea 2"},
        plan,
    ]
    found = state([*JOURNAL, *lines])
    assert (found.phase, found.reason, found.requests) == (CampaignPhase.PAUSED, "lunch", 3)
    assert (found.unwanted, found.stop_mode, found.again) == ({"x"}, "drain", 2)
    assert [(h.slug, why) for h, why in found.skipped] == [("twin", "the same as idea 2")]
    assert found.attempts()[-1].status == "skipped"
    assert found.open_round and found.open_round.candidates == (2,)
    assert not state([*JOURNAL, *lines, {"do": "confirmed_round", "round": 1}]).open_round


def test_an_empty_value_is_never_best_whatever_its_row_says() -> None:
    journal = [*JOURNAL, idea(4, "empty"), *run(4, "e-1"), idea(5, "nan"), *run(5, "n-1")]
    rows = [*ROWS, row(4, "e-1", None, ended=20.0), row(5, "n-1", float("nan"), ended=21.0)]
    seen = state(journal, rows)
    assert seen.best is not None and seen.best.slug == "good"
    assert [one.slug for one in seen.keeps] == ["baseline", "good"]
    assert [(one.status, one.kept, one.value) for one in seen.ideas[3:]] == [("discard", False, None)] * 2


def test_a_baseline_without_a_value_meets_no_target() -> None:
    seen = state([idea(1, "baseline", ""), *run(1, "b-1", 1, "baseline")], [row(1, "b-1", None, ended=1.0)])
    assert seen.best is not None and (seen.best.kept, seen.best.value) == (False, None)
    facts = rules.facts(seen, now=10.0)
    assert facts.best is None
    assert stand(Rules(target=0.0), facts, SPEC.objective).met == ""
