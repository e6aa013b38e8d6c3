"""What the edits of a confirmed tip are worth: which are measured, in how much time, and which may be dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.campaign.spec import ProposerSpec, Rules
from autoresearch.core.controller import ablation, confirmation_rounds
from autoresearch.core.controller.actions import BeginAblation, Do, Finish, Note
from autoresearch.core.controller.next_actions import Machine, next_actions
from autoresearch.core.controller.rules import runs_left
from autoresearch.core.controller.standing import standing
from autoresearch.core.metrics.objective import Direction, Objective

LOOKED = frozenset({Do.CHECK_QUEUES, Do.CHECK_SEEDS, Do.MERGE_TIP})


@pytest.fixture
def made(records: Callable[..., Any]) -> Any:
    """A campaign that is over but for its confirmed tip, the merge of `good` and `idle`; a lower loss is better."""
    rules = Rules(count=3, confirm_runs=16)
    objective = Objective("loss", Direction.MINIMIZE)
    found = records(search="tip", proposer=ProposerSpec("queue"), rules=rules, objective=objective)
    found.checked()
    for slug, value in (("good", 0.3), ("idle", 0.49)):
        found.idea(slug, proposer="queue")
        found.run(slug, value, "discard")
    found.idea("tip", proposer="campaign", merges=("good", "idle"))
    found.note("tip", good_edits=[2, 3], index=4, left=[])
    found.run("tip", 0.3, "keep")
    found.note("confirming", round=1, candidates=[4], sizes=[4])
    found.note("confirmed", index=4, slug="tip", round=1, n=4, n_baseline=4, gain=0.2, value=0.3)
    found.note("confirmed_round", round=1)
    return found


def begun(made: Any) -> None:
    """What `idea_commit.begin_ablation` records."""
    for edit, rest in ((3, "good"), (2, "idle")):
        made.idea(f"tip-without-{edit}", proposer="campaign", merges=(rest,))
    made.note("confirming", round=ablation.next_number(made.state()), candidates=[5, 6], sizes=[ablation.RUNS], of=4)


def over(made: Any, lost: int = 0) -> list[str]:
    """All runs of the ablation, and what is said at its end; the first `lost` ones of one version have no metric."""
    values = {"tip": 0.3, "tip-without-3": 0.27, "tip-without-2": 0.5}
    failing = {"tip-without-3": lost}
    while found := ablation.owed(made.state(), made.state().open_round):
        slug = found.idea.slug
        if failing.get(slug, 0) > 0:
            failing[slug] -= 1
            made.run(slug, None, "crash", why="confirm", round_number=-1)
            continue
        values[slug] += 0.01 if len(found.idea.runs) % 2 else -0.01
        made.run(slug, values[slug], "discard", why="confirm", round_number=-1)
    return made.apply(ablation.settle(made.state(), made.state().open_round))


def test_the_least_sure_edits_are_measured_as_far_as_there_is_time(made: Any) -> None:
    state = made.state()
    tip, edits = ablation.due(state, float("inf"))
    assert (tip.slug, [edit.slug for edit in edits]) == ("tip", ["idle", "good"])
    assert [edit.slug for edit in ablation.due(state, 11)[1]] == ["idle"], "8 runs fit, 12 do not"
    assert ablation.due(state, 7) is None
    (first, second) = next_actions(state, Machine(now=made.clock, tried=LOOKED))
    assert (first, second) == (Do.WITHDRAW_RUN, BeginAblation(4, (3, 2)))


def test_what_gains_nothing_may_be_dropped(made: Any) -> None:
    begun(made)
    said = over(made)
    state = made.state()
    assert [(one.edit.slug, one.droppable) for one in ablation.edit_worths(state)] == [("idle", True), ("good", False)]
    assert said[0].startswith("#3 Try idle: loss +0.04 by it (90 % interval +0.03")
    assert said[0].endswith("without); it may be dropped")
    assert said[1].startswith("#2 Try good: loss -0.19 by it (90 % interval -0.") and "dropped" not in said[1]
    assert not state.open_round and ablation.due(state, float("inf")) is None
    assert state.best.slug == "tip" and state.best.claim.n == 4
    assert confirmation_rounds.next_round(state) == 2, "it claims nothing, so it spends no level"


def test_the_smaller_version_is_confirmed_by_itself_and_wins(made: Any) -> None:
    begun(made)
    over(made)
    assert [idea.slug for idea in confirmation_rounds.to_be_proved(made.state())] == ["tip-without-3"]
    actions = next_actions(made.state(), Machine(now=made.clock, tried=LOOKED))
    assert Note("confirming", {"round": 2, "candidates": [5], "sizes": actions[1].fields["sizes"]}) in actions
    made.note("confirming", round=2, candidates=[5], sizes=[4])
    made.note("confirmed", index=5, slug="tip-without-3", round=2, n=4, n_baseline=4, gain=0.2, value=0.27)
    made.note("confirmed_round", round=2)
    state = made.state()
    assert (state.winner.slug, state.best.slug) == ("tip-without-3", "tip")
    assert standing(state, state.winner).value == 0.27
    assert isinstance(next_actions(state, Machine(now=made.clock, tried=LOOKED))[-1], Finish)


def test_a_version_that_fails_more_often_takes_no_edit_away(made: Any) -> None:
    """The runs that survive are the better ones."""
    begun(made)
    said = over(made, lost=2)
    (idle,) = [one for one in ablation.edit_worths(made.state()) if one.edit.slug == "idle"]
    assert idle.gain < 0 and (idle.runs, idle.lost, idle.droppable) == ((4, 2), 2, False)
    assert said[0].endswith("4 fresh runs with it, 2 without and 2 more that have no metric)")


def test_gpu_hours_that_are_spent_begin_none(made: Any) -> None:
    assert runs_left(made.state(), made.clock) == float("inf")
    made.spec = replace(made.spec, gpus_per_run=2, rules=replace(made.spec.rules, budget_gpu_hours=1.0))
    state = made.state()
    assert 0 <= runs_left(state, made.clock) < float("inf")
    state = replace(state, spec=state.spec.with_rules({"budget_gpu_hours": state.gpu_hours}))
    assert runs_left(state, made.clock) == 0 and ablation.due(state, 0) is None


def test_one_that_cannot_be_made_ends_at_once(made: Any) -> None:
    made.note("confirming", round=-1, candidates=[], sizes=[ablation.RUNS], of=4)
    done = made.apply(ablation.settle(made.state(), made.state().open_round))
    assert done == [] and ablation.edit_words(made.state()) == []
    actions = next_actions(made.state(), Machine(now=made.clock, tried=LOOKED))
    assert isinstance(actions[-1], Finish)
