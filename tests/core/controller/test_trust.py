"""What makes the result of an edit doubtful where the edited code measures itself, and what a person's word changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.campaign.state import why_doubtful
from autoresearch.core.controller.confirmation_rounds import judge_round, plan_round
from autoresearch.core.controller.next_actions import answer

BASE = [0.60, 0.61, 0.59, 0.60]  # sd 0.0082


@pytest.mark.parametrize(
    ("values", "flags", "why"),
    [
        ([0.63, 0.64], (), ""),
        ([0.99, 0.99], (), "all its 2 runs are equal (0.99), and those of the baseline are not"),
        ([0.99], (), ""),
        ([0.2], (), ""),
        ([0.62], ("train.py:3 prints, logs or sets a metric of the objective",), "train.py:3 prints, logs or sets"),
        ([0.62], ("flat: its objective is 0.62 at all 9 steps",), "flat: its objective"),
        ([0.62], ("train.py:3 sleeps",), ""),
        ([], (), ""),
    ],
)
def test_what_is_doubtful(values: list[float], flags: tuple[str, ...], why: str) -> None:
    found = why_doubtful(values, flags, BASE)
    assert found.startswith(why) and bool(found) is bool(why)
    if not flags:
        assert not why_doubtful(values, flags, [0.6, 0.6, 0.6]), "the baseline does not vary"


def tip_of_steps(records: Callable[..., Any]) -> Any:
    """Steps of 8 sd each: two on the baseline, one on the merge of both, which never ran; and one of 20."""
    made = records(empty=True, self_reported=True, search="tip")
    made.idea("baseline")
    for value in BASE:
        made.run("baseline", value)
    made.checked()
    honest = (("a", "baseline", 0.665), ("b", "baseline", 0.665), ("tip", "baseline", None), ("c", "tip", 0.795))
    for slug, parent, value in (*honest, ("far", "tip", 0.9), ("whole", "baseline", 0.79)):
        merges = {"tip": ("a", "b"), "whole": ("a", "b", "c")}.get(slug, ())
        made.idea(slug, kind="code", parent=parent, merges=merges, proposer="campaign" if merges else "agent")
        if value is not None:
            made.run(slug, value, "discard")
    return made


def test_what_is_far_better_is_built_on_and_proved_and_its_claim_says_so(records: Callable[..., Any]) -> None:
    made = tip_of_steps(records)
    state = made.state()
    assert not state.doubtful and state.too_good(state.by_slug("far")) and not state.distrusted(state.by_slug("far"))
    for n in range(4):
        made.run("whole", 0.79 + n / 1000, "keep", standing="keep")
    state = made.state()
    assert state.best is state.by_slug("whole") and not state.doubtful
    planned, _ = plan_round(state)
    assert planned is not None and planned.candidates == (state.best.index,)
    made.note("confirming", round=1, candidates=[state.best.index], sizes=list(planned.sizes))
    for n in range(4):
        made.run("whole", 0.79 + n / 1000, why="confirm", round_number=1)
        made.run("baseline", 0.60 + n / 1000, why="confirm", round_number=1)
    said = made.apply(judge_round(made.state(), made.curves()))
    whole = made.state().by_slug("whole")
    assert whole.confirmed == "confirmed", said
    assert whole.claim.caveat == "not sandboxed; 23 standard deviations better than the baseline"
    assert whole.claim.caveat in said[0]


def test_a_doubtful_idea_is_no_parent_and_not_confirmed_until_a_person_approves_it(records: Callable[..., Any]) -> None:
    """`acc = 0.99` in the training loop, and a child of it."""
    made = records(empty=True, self_reported=True)
    made.idea("baseline")
    for value in BASE:
        made.run("baseline", value)
    made.checked()
    made.idea("honest", kind="code")
    made.idea("constant", kind="code", flags=("train.py:5 prints, logs or sets a metric of the objective",))
    made.idea("child", kind="code", parent="constant")
    for slug, value in (("honest", 0.64), ("constant", 0.66), ("child", 0.67)):
        for n in range(4):
            made.run(slug, value + n / 1000, "keep", standing="keep")
    state = made.state()
    assert state.best.slug == "honest" and [idea.slug for idea in state.doubtful] == ["constant", "child"]
    planned, _ = plan_round(state)
    assert planned is not None and planned.candidates == (2,)
    planned, why = plan_round(state, [state.by_slug("constant")])
    assert planned is None and why.endswith("autoresearch campaign approve constant --campaign 20261121-sort")
    assert made.apply(answer(state, {"do": "approve", "slug": "constant"}, [])) == ["constant: approved"]
    state = made.state()
    assert not state.doubtful and state.best.slug == "child"
    evaluated = records(empty=True)
    evaluated.journal, evaluated.rows = [line for line in made.journal if line["do"] != "trusted"], made.rows
    assert not evaluated.state().doubtful, "`evaluate:` measures it"
