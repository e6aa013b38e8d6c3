"""How an idea stands: the same words whichever direction is better, and numbers that subtract as they are printed."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from autoresearch.core.campaign.fold import fold
from autoresearch.core.controller.sentences import row_line
from autoresearch.core.controller.standing import Basis, Standing, Word, standing, standings, tally
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.text.numbers import subtracted
from tests.core.test_campaign_state import SPEC, idea, row, run
from tests.specs import events

UP, DOWN = Objective("pass@1"), Objective("loss", Direction.MINIMIZE)
NEW = {"gain": 0.041, "gain_low": 0.012, "gain_high": 0.07, "coverage": 0.9, "value": 0.341,
       "n": 6, "n_baseline": 6, "failed": 0, "failed_baseline": 0}  # fmt: skip


def shown(
    objective: Objective = UP, do: str = "", values: tuple[float | None, ...] = (0.4,), **verdict: Any
) -> Standing:
    """An idea with these runs, beside a baseline of 0.2, 0.3 and a fresh 0.4."""
    journal = [idea(1, "baseline", ""), *run(1, "b-1", 1, "baseline"), *run(1, "b-2", 2, "baseline"),
               *run(1, "b-3", 3, "confirm", round=1), idea(2, "lr-up")]  # fmt: skip
    rows = [row(1, "b-1", 0.2), row(1, "b-2", 0.3), row(1, "b-3", 0.4)]
    for n, value in enumerate(values):
        journal += run(2, f"i-{n}", n + 1)
        rows.append(row(2, f"i-{n}", value, "keep" if value is not None else "crash"))
    verdicts = [{"do": do, "index": 2, **verdict}] if do else []
    state = fold(replace(SPEC, objective=objective), events(journal, rows, verdicts))
    return standing(state, state.ideas[1])


def test_a_confirmed_idea_stands_at_its_fresh_runs_and_a_better_loss_is_lower() -> None:
    found = shown(UP, "confirmed", **NEW)
    assert found.sentence == (
        "#2 lr-up: confirmed, pass@1 0.341, +0.041 against the baseline's 0.3 "
        "(90 % interval +0.012 to +0.07; 6 fresh runs against 6, none failed)"
    )
    assert (found.basis, found.word, found.search_mean) == (Basis.FRESH, Word.CONFIRMED, 0.4)
    assert (found.value, found.low, found.high) == pytest.approx((0.341, 0.312, 0.37))
    found = shown(DOWN, "confirmed", **NEW | {"value": 0.259})
    assert found.words == (
        "confirmed, loss 0.259, -0.041 against the baseline's 0.3 "
        "(90 % interval -0.07 to -0.012; 6 fresh runs against 6, none failed)"
    )
    assert (found.low, found.high) == pytest.approx((0.23, 0.288))
    assert found.to_json()["gain"] == pytest.approx(0.041), "for programs, positive is better"


def test_a_gain_that_is_corrected_for_the_looks_stands_beside_the_difference_of_the_means() -> None:
    words = "pass@1 0.341, +0.05 against the baseline's 0.291 (corrected for the looks +0.041; 90 % interval"
    assert words in shown(UP, "confirmed", **NEW | {"baseline": 0.291}).words


@pytest.mark.parametrize(
    ("failed", "theirs", "words"),
    [
        (2, 1, "6 fresh runs against 6; 2 of its 8 and 1 of the baseline's 7 failed"),
        (0, 1, "6 fresh runs against 6; none of its 6 and 1 of the baseline's 7 failed"),
        (1, 0, "6 fresh runs against 6; 1 of its 7 and none of the baseline's 6 failed"),
        (None, None, "6 fresh runs against 6)"),
    ],
)
def test_fresh_runs_that_failed_are_named(failed: int | None, theirs: int | None, words: str) -> None:
    assert words in shown(UP, "confirmed", **{**NEW, "failed": failed, "failed_baseline": theirs}).words


def test_failures_that_forbid_a_claim_are_named() -> None:
    """The interval alone would look like a proof."""
    counts = {**NEW, "failed": 3, "alpha": 0.02}
    assert shown(UP, "demoted", **counts, p=0.001).words.endswith("of the baseline's 6 failed, too many for a claim)")
    assert shown(UP, "demoted", **counts, p=0.3).words.endswith("of the baseline's 6 failed)")
    assert shown(UP, "confirmed", **counts, p=0.001).words.endswith("of the baseline's 6 failed)")


PICKED = "{} 0.4, +0.15 against the baseline's 0.25 (search mean, picked because it was {}; one run)"


@pytest.mark.parametrize(
    ("objective", "do", "verdict", "words"),
    [
        (UP, "", {}, f"kept, not confirmed: {PICKED.format('pass@1', 'high')}"),
        (DOWN, "", {}, f"kept, not confirmed: {PICKED.format('loss', 'low')}"),
        (UP, "confirmed", {"delta": 0.05}, f"kept, confirmed: {PICKED.format('pass@1', 'high')}"),  # an old verdict
        (UP, "undecided", {**NEW, "reason": "too few"}, f"kept, undecided: {PICKED.format('pass@1', 'high')}; too few"),
        (UP, "demoted", NEW, "demoted, pass@1 0.341, +0.041"),
        (UP, "confirmed", {**NEW, "caveat": "not sandboxed"}, "confirmed (not sandboxed), pass@1"),
        (UP, "deterministic", {}, "deterministic: not confirmed on other data; pass@1 0.4, +0.15 against"),
    ],
)
def test_what_is_said_of_an_idea(objective: Objective, do: str, verdict: dict[str, Any], words: str) -> None:
    assert shown(objective, do, **verdict).words.startswith(words)


@pytest.mark.parametrize(
    ("randomness", "words"),
    [
        ("fixed", "differs for this seed: not confirmed on others"),
        ("none", "better, deterministic: not confirmed on other data"),
    ],
)
def test_a_kept_idea_of_one_run_is_no_lucky_one_before_its_verdict(randomness: str, words: str) -> None:
    journal = [idea(1, "baseline", ""), *run(1, "b-1", 1, "baseline"), idea(2, "lr-up"), *run(2, "i-1")]
    journal.append({"do": "seed_check", "seen": False, "reason": "equal", "by": "", "runs": 3, "values": 0,
                    "exact": True, "step": 0.01, "copies": [], "randomness": randomness})  # fmt: skip
    state = fold(SPEC, events(journal, [row(1, "b-1", 0.2), row(2, "i-1", 0.4)]))
    found = standing(state, state.ideas[1])
    assert found.words == f"{words}; pass@1 0.4, +0.2 against the baseline's 0.2 (resolution 0.01)"
    assert (found.basis, found.word, found.claim) == (Basis.ONE_RUN, Word.KEPT, "")


def test_an_idea_that_beats_the_baseline_and_not_the_best_is_called_so() -> None:
    journal, rows = [idea(1, "baseline", "")], []
    for index, slug, values in ((1, "baseline", (0.2, 0.21, 0.19, 0.2)), (2, "best", (0.6, 0.61, 0.6, 0.61)),
                                (3, "second", (0.5,)), (4, "no-better", (0.2,))):  # fmt: skip
        journal += [idea(index, slug)] if index > 1 else []
        for n, value in enumerate(values):
            journal += run(index, f"{slug}-{n}", n + 1)
            rows.append(row(index, f"{slug}-{n}", value, "keep" if index < 3 else "discard", standing="discard"))
    state = fold(SPEC, events(journal, rows))
    assert [one.word for one in standings(state)] == ["baseline", "kept", Word.BETTER, "discarded"]
    assert tally(state, standings(state)) == "4 of 5 ideas, 1 kept, 0 confirmed"


@pytest.mark.parametrize(
    ("value", "other", "printed"),
    [
        (0.6512, 0.5, ("0.6512", "0.5", "+0.1512")),
        (2.00191, 2.0019, ("2.00191", "2.0019", "+1e-05")),
        (1 / 3, 0.3339999, ("0.333333", "0.334", "-0.000667")),
        (12345.6, 12000.0, ("12346", "12000", "+346")),
        (3.1e-9, 2e-9, ("3.1e-09", "2e-09", "+1.1e-09")),
        (0.0, 0.0, ("0", "0", "+0")),
    ],
)
def test_two_values_and_their_difference_subtract_as_they_are_printed(
    value: float, other: float, printed: tuple[str, str, str]
) -> None:
    assert subtracted(value, other) == printed
    assert Decimal(printed[0]) - Decimal(printed[1]) == Decimal(printed[2])


def test_missing_runs_are_counted() -> None:
    assert shown(values=(0.4, None, 0.6, None)).words.endswith("; mean of 2; 2 of 4 runs have no metric)")
    found = shown(values=(0.4, None))
    assert found.words.endswith("; one run; 1 of 2 runs has no metric)") and (found.n, found.failed) == (1, 1)
    assert shown(values=(None, None)).words == "crashed: no metric (2 runs)"


@pytest.mark.parametrize(
    ("failure", "value", "words"),
    [
        ("constraint_broken", 0.4, "crashed: broke a constraint, pass@1 0.4 (1 run)"),
        ("constraint_unread", 0.4, "crashed: may have broken a constraint, pass@1 0.4 (1 run)"),
        ("constraint_broken", None, "crashed: no metric (1 run)"),
    ],
)
def test_what_a_run_measured_that_broke_a_constraint_is_said(failure: str, value: float | None, words: str) -> None:
    journal = [idea(1, "baseline", ""), *run(1, "b-1", 1, "baseline"), idea(2, "lr-up"), *run(2, "i-1")]
    rows = [row(1, "b-1", 0.2), replace(row(2, "i-1", value, "crash"), failure=failure)]
    state = fold(SPEC, events(journal, rows))
    found = standing(state, state.ideas[1])
    assert (found.words, found.value) == (words, None)


def test_runs_that_collapsed_are_left_out_of_the_search_mean_and_named() -> None:
    """As the decision leaves them out: the report said that a kept idea was worse than what it had beaten."""
    journal = [idea(1, "baseline", "")]
    rows = []
    for n, value in enumerate((0.2, 0.3, 0.25, 0.22, 0.28, 0.24, 0.26, -9.0)):
        journal += run(1, f"b-{n}", n + 1, "baseline" if n < 7 else "confirm", **({} if n < 7 else {"round": 1}))
        rows.append(row(1, f"b-{n}", value))
    journal.append(idea(2, "lr-up"))
    for n, value in enumerate((0.4, 0.42, -9.0, 0.41)):
        journal += run(2, f"i-{n}", n + 1)
        rows.append(row(2, f"i-{n}", value))
    state = fold(SPEC, events(journal, rows))
    found = standing(state, state.ideas[1])
    assert found.value == found.search_mean == pytest.approx(0.41)
    assert found.words.endswith("; mean of 3; 1 of 4 runs collapsed)")
    found = standing(state, state.ideas[0])
    assert found.words == "pass@1 -0.9062 (mean of all 8; 1 of them collapsed)"


def test_the_baseline_is_the_mean_of_all_its_runs() -> None:
    journal = [idea(1, "baseline", ""), *run(1, "b-1", 1, "baseline"), *run(1, "b-2", 2, "confirm", round=1)]
    state = fold(SPEC, events(journal, [row(1, "b-1", 0.2), row(1, "b-2", 0.4)]))
    found = standing(state, state.ideas[0])
    assert (found.words, found.value, found.search_mean) == ("pass@1 0.3 (mean of all 2)", pytest.approx(0.3), 0.2)
    assert row_line(state, state.ideas[0], "b-1").endswith("best 0.3 (#1 baseline)")


@pytest.mark.parametrize(("verdict", "end"), [({}, "keep,  0.4"), (NEW, "; best 0.341 (#2 lr-up, confirmed)")])
def test_the_line_of_a_row_labels_the_best_unless_it_says_it_itself(verdict: Any, end: str) -> None:
    journal = [idea(1, "baseline", ""), *run(1, "b-1", 1, "baseline"), idea(2, "lr-up"), *run(2, "i-1")]
    rows = [row(1, "b-1", 0.2), row(2, "i-1", 0.4)]
    state = fold(SPEC, events(journal, rows, [{"do": "confirmed", "index": 2, **verdict}] if verdict else []))
    assert row_line(state, state.ideas[1], "i-1").endswith(end)


def test_the_line_of_a_fresh_run_has_no_word_for_its_idea() -> None:
    journal = [idea(1, "baseline", ""), *run(1, "b-1", 1, "baseline"), idea(2, "lr-up"), *run(2, "i-1"),
               *run(2, "i-2", 2, "confirm", round=1), *run(2, "i-3", 3, "retest")]  # fmt: skip
    rows = [row(1, "b-1", 0.2), row(2, "i-1", 0.4), row(2, "i-2", 0.3, "crash"), row(2, "i-3", 0.3, "crash")]
    rows = [replace(one, replicate=int(one.run_id[-1])) for one in rows]
    rows = [*rows[:2], replace(rows[2], standing="keep"), replace(rows[3], standing="pending")]
    state = fold(SPEC, events(journal, rows))
    lines = [row_line(state, state.ideas[1], name) for name in ("i-2", "i-3")]
    assert "] #2 lr-up, fresh run 2: no metric" in lines[0], "what it printed before it failed is no result"
    assert "] #2 lr-up, run 3: pending, no metric; best" in lines[1]
    assert state.ideas[1].rows[1].shown_status == "crash"
