"""The tip: what each edit is worth by all runs together, what is merged, and when the merge is put to the proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.core.campaign import tip
from autoresearch.core.campaign.judgement import decision_of
from autoresearch.core.campaign.spec import ProposerSpec, Rules
from autoresearch.core.campaign.tip import (
    PROMISE,
    Place,
    change_by,
    effects,
    good_edits,
    needs_merge,
    place_of,
    tip_words,
)
from autoresearch.core.controller.actions import Do, Finish, Note, PrepareRun
from autoresearch.core.controller.next_actions import Machine, next_actions
from autoresearch.core.controller.standing import standing
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.statistics import effects as effects_fit

Make = Callable[..., Any]


@pytest.fixture
def made(records: Make) -> Any:
    """A campaign of a queue whose baseline is 0.5 with an sd of 0.02."""
    found = records(search="tip", proposer=ProposerSpec("queue"), rules=Rules(count=4), confirm=False)
    found.checked()
    return found


def tried(made: Any, slug: str, value: float | None, parent: str = "baseline", **hypothesis: Any) -> None:
    made.idea(slug, parent=parent, proposer="queue", **hypothesis)
    made.run(slug, value, "crash" if value is None else "discard")


def merged(made: Any, *slugs: str) -> str:
    """The tip of these ideas, as the controller records it."""
    name = f"tip-{len(made.indexes)}"
    index = made.idea(name, proposer="campaign", merges=slugs)
    made.note("tip", good_edits=list(good_edits(made.state())), index=index, left=[])
    return name


def due(made: Any, **facts: Any) -> tuple[Any, ...]:
    looked = frozenset({Do.CHECK_QUEUES, Do.CHECK_SEEDS})
    live = tuple(run.run for _, run in made.state().live)
    return next_actions(made.state(), Machine(now=made.clock, live=live, tried=looked, **facts))


@pytest.mark.parametrize("many", [effects_fit.MANY, 0])
def test_effects_are_those_of_the_regression_with_the_prior_of_its_last_round(
    made: Any, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(effects_fit, "MANY", many)
    effects_fit.fitted.cache_clear()
    for slug, value in (("a", 0.53), ("b", 0.52), ("c", 0.55)):
        tried(made, slug, value)
    base = merged(made, "a", "b", "c")
    tried(made, "d", 0.58, base)
    tried(made, "e", 0.49, base)
    found = tip._worths(made.state())
    pairs = [(2, 3), (2, 4), (3, 4)]  # the later edits were made on the others
    assert sorted(found) == sorted([(2,), (3,), (4,), (6,), (7,), *pairs])
    before = {term: effects_fit._variance(one) for term, one in found.items()}
    tips = [(2,), (3,), (4,), *pairs]
    rows = [[], [], [], [(2,)], [(3,)], [(4,)], [*tips, (6,)], [*tips, (7,)]]
    values = numpy.array([0.50, 0.52, 0.48, 0.53, 0.52, 0.55, 0.58, 0.49])
    x = numpy.array([[1, *(term in row for term in sorted(found))] for row in rows], dtype=float)
    prior = numpy.diag([1 / effects_fit.WIDE, *(1 / before[term] for term in sorted(before))])
    covariance = numpy.linalg.inv(x.T @ x + prior)
    mean = covariance @ x.T @ (values - 0.5) / 0.02
    for n, term in enumerate(sorted(found), 1):
        assert found[term].mean == pytest.approx(mean[n], rel=0.02, abs=0.01)
        assert found[term].sd == pytest.approx(covariance[n, n] ** 0.5, rel=0.01)


def test_gains_that_ruin_each_other_stay_and_the_best_of_them_is_the_tip(made: Any) -> None:
    for slug, value in (("a", 0.60), ("b", 0.62), ("c", 0.58)):
        tried(made, slug, value)
    assert good_edits(made.state()) == (3, 2, 4)
    name = merged(made, "b", "a", "c")
    made.run(name, 0.42, "discard", why="proof")
    state = made.state()
    assert good_edits(state) == (3,) and needs_merge(state)
    assert all(place_of(state, idea) is not Place.OUT for idea in state.ideas[1:4])


def test_one_that_ruins_the_run_says_nothing_against_what_it_was_edited_on(made: Any) -> None:
    tried(made, "a", 0.6)
    base = merged(made, "a")
    tried(made, "ruin", -2.0, base)
    state = made.state()
    assert effects(state)[2].mean > 1 and effects(state)[4].mean < -100
    assert (place_of(state, state.ideas[1]), place_of(state, state.ideas[3])) == (Place.IN_TIP, Place.OUT)
    middle, low, high = change_by(state, state.ideas[1]) or (0, 0, 0)
    assert 0 < middle < 0.1 and low < middle < high


def test_two_that_ruin_each_other_are_named(made: Any) -> None:
    tried(made, "a", 0.60)
    tried(made, "b", 0.62)
    tried(made, "c", 0.58)
    made.run(merged(made, "b", "a"), 0.42, "discard", why="proof")
    state = made.state()
    assert [tip.beside_words(state, idea) for idea in state.ideas] == [
        "",
        "; does not go with #3",
        "; does not go with #2",
        "",
        "",
    ]
    assert standing(state, state.ideas[1]).reason.endswith("; does not go with #3")


def test_equal_runs_are_one_edit(made: Any) -> None:
    for slug, value in (("a", 0.60), ("b", 0.49), ("again", 0.60)):
        tried(made, slug, value)
    state = made.state()
    alone = effects(state)[2]
    ((other, ours, theirs),) = tip.may_be_equal(state, state.ideas[3])
    assert (other.slug, ours.run_id, theirs.run_id) == ("a", "again-000001", "a-000001")
    made.note("equal", index=4, of=2)
    name = merged(made, "a")
    tried(made, "later", 0.62, "again")
    state = made.state()
    assert name == "tip-4" and good_edits(state) == (2, 6) and tip.edits_of(state, state.ideas[5]) == {2, 6}
    assert 4 not in effects(state) and effects(state)[2].sd < alone.sd
    assert place_of(state, state.ideas[3]) is Place.IN_TIP and change_by(state, state.ideas[3]) is not None
    assert standing(state, state.ideas[3]).reason.endswith("; the same change as #2: equal runs")
    assert tip.beside_words(state, state.ideas[1]) == "; the same change as #4: equal runs"
    assert tip.may_be_equal(state, state.ideas[3]) == []
    tried(made, "undone", 0.50, "a")
    made.note("equal", index=7, of=1)
    assert tip.beside_words(made.state(), made.state().ideas[6]).endswith("a run equal to the baseline's")
    tried(made, "idle", 0.60, name)
    made.note("equal", index=8, of=2)
    state = made.state()
    assert place_of(state, state.ideas[7]) is Place.OUT and change_by(state, state.ideas[7]) is None
    assert tip.beside_words(state, state.ideas[7]) == "; it changes nothing: a run equal to that of #2"
    assert tip.beside_words(state, state.ideas[1]) == "; the same change as #4: equal runs"


def test_a_setting_that_is_set_again_counts_no_more(made: Any) -> None:
    tried(made, "high", 0.60, overrides={"optim": {"lr": 1}})
    tried(made, "both", 0.58, merged(made, "high"), overrides={"wd": 1, "eps": 1})
    tried(made, "higher", 0.62, "both", overrides={"optim.lr": 2, "wd": 2})
    state = made.state()
    edits = [tip.edits_of(state, state.by_slug(slug)) for slug in ("both", "higher")]
    assert edits == [{2, 4}, {4, 5}], "of `both`, one setting is left"
    tried(made, "new", 0.62, overrides={"+kl": 1})
    tried(made, "known", 0.62, "new", overrides={"kl": 2})
    state = made.state()
    assert tip.edits_of(state, state.by_slug("known")) == {7}, "two spellings of one key"


def test_less_is_better_where_the_metric_says_so(records: Make) -> None:
    made = records(search="tip", objective=Objective("pass@1", Direction.MINIMIZE), rules=Rules(count=4))
    made.checked()
    tried(made, "a", 0.44)
    state = made.state()
    assert good_edits(state) == (2,)
    change = change_by(state, state.ideas[1])
    assert change is not None and change[0] < 0


def test_what_cannot_be_merged_is_not_asked_for(made: Any) -> None:
    tried(made, "a", 0.6, blueprint="# another")
    assert good_edits(made.state()) == ()


def test_an_idea_runs_once_and_what_seems_good_is_merged_before_the_next(made: Any) -> None:
    tried(made, "a", 0.55)
    state = made.state()
    assert not state.ideas[1].kept and state.best is state.baseline
    reason = decision_of(state, state.ideas[1], [0.55]).reason
    assert reason.endswith("one run of it; all runs together say what it is worth")
    assert due(made) == (Do.MERGE_TIP,)
    merged(made, "a")
    assert not needs_merge(made.state()) and made.state().base.slug == "tip-2"
    assert made.state().attempted == 2, "a merge is no idea"


def test_the_tip_is_proved_at_the_end_and_twice_at_most(made: Any) -> None:
    for slug, value in (("a", 0.52), ("b", 0.49), ("c", 0.49)):
        tried(made, slug, value)
    name = merged(made, *(made.state().ideas[n - 1].slug for n in good_edits(made.state())))
    for _ in range(tip.MOST_PROOFS):
        (action,) = due(made)
        assert isinstance(action, PrepareRun) and action.request.idea.slug == name and action.request.why == "proof"
        made.run(name, 0.5, "discard", why="proof")
        made.note("tip", good_edits=list(good_edits(made.state())), index=made.indexes[name], left=[])
    assert any(isinstance(action, Finish) for action in due(made))


def test_a_run_that_is_far_better_than_the_best_is_proved_by_itself_at_the_end(made: Any) -> None:
    """A merge may have lost it."""
    for slug, value in (("a", 0.60), ("b", 0.62), ("c", 0.49)):
        tried(made, slug, value)
    name = merged(made, "b", "a")
    made.run(name, 0.42, "discard", why="proof")
    made.note("tip", good_edits=list(good_edits(made.state())), index=0, left=[])
    (action,) = due(made)
    assert isinstance(action, PrepareRun) and (action.request.idea.slug, action.request.why) == ("b", "proof")
    made.run("b", 0.60, "discard", why="proof")
    state = made.state()
    assert not state.runs_once(state.by_slug("b")), "from now on it is judged as any idea of a chain is"


def test_on_the_way_it_is_proved_after_so_many_ideas_if_it_promises_enough(records: Make) -> None:
    made = records(search="tip", rules=Rules(count=40), gpus_per_run=1, confirm=False)
    made.checked()
    for n in range(tip.EVERY):
        merged(made, *(made.state().ideas[n - 1].slug for n in good_edits(made.state()))) if n == 1 else None
        assert not (made.state().tip and tip.proof_due(made.state(), last=False))
        tried(made, f"i{n}", 0.62 if n == 0 else 0.5)
    state = made.state()
    assert tip.promise(state, state.tip) > PROMISE and tip.proof_due(state, last=False) is state.tip
    assert any(isinstance(action, PrepareRun) and action.request.why == "proof" for action in due(made))
    made.note("rules", budget_gpu_hours=0.1)
    assert any(isinstance(action, Finish) for action in due(made)), "a budget of runs is one of proofs, too"
    made.run(state.tip.slug, 0.55, "discard", why="proof")
    assert tip.proof_due(made.state(), last=False) is None


@pytest.mark.parametrize(
    ("sign", "target", "early"), [(1, 0.55, True), (1, 0.7, False), (-1, -0.55, True), (-1, -0.7, False)]
)
def test_it_is_proved_as_soon_as_it_promises_the_target(records: Make, sign: int, target: float, early: bool) -> None:
    direction = Direction.MAXIMIZE if sign > 0 else Direction.MINIMIZE
    rules = Rules(count=40, target=target)
    made = records(empty=True, search="tip", rules=rules, confirm=False, objective=Objective("x", direction))
    made.idea("baseline")
    for value in (0.50, 0.52, 0.48):
        made.run("baseline", sign * value)
    made.checked()
    tried(made, "good", sign * 0.62)
    merged(made, "good")
    state = made.state()
    assert tip.proof_due(state, last=False) is (state.tip if early else None)
    made.run(state.tip.slug, sign * 0.53, "discard", why="proof")
    assert tip.proof_due(made.state(), last=False) is None, "once, unless other edits are merged"


def test_a_merge_is_guarded_before_anything_is_edited_on_it(records: Make) -> None:
    agent = AgentSpec(agent="claude", guard=("pytest",))
    made = records(search="tip", research=agent, proposer=ProposerSpec("agent"), rules=Rules(count=9))
    made.checked()
    tried(made, "a", 0.55)
    tried(made, "b", 0.56)
    merged(made, "b", "a")
    state = made.state()
    (action,) = due(made)
    assert isinstance(action, Note) and (action.fields["kind"], action.fields["slug"]) == ("guard", state.ideas[3].slug)
    assert state.tip is None and state.base is state.baseline
    made.note("guarded", index=4, passed=False, why="it fails")
    assert made.state().broken_merges == {frozenset({2, 3})} and due(made) == (Do.MERGE_TIP,)
    merged(made, "b")
    made.note("guarded", index=5, passed=True, why="")
    state = made.state()
    assert state.base is state.ideas[4] and place_of(state, state.ideas[1]) is Place.ASIDE


def test_where_runs_are_copies_there_is_no_tip(records: Make) -> None:
    made = records(search="tip")
    made.checked(seen=False)
    tried(made, "a", 0.6)
    assert not made.state().searches_by_tip and not needs_merge(made.state())


def test_what_status_says_of_the_tip(made: Any) -> None:
    assert tip_words(made.state()) == ""
    for slug in ("a", "b"):
        tried(made, slug, 0.58)
    name = merged(made, "a", "b")
    begins, expected = f"#4 Try {name}: pass@1 +0.0", "against the best is expected; "
    words = tip_words(made.state())
    assert words.startswith(begins)
    assert words.endswith(f"{expected}proved after 6 more ideas or at the end, if that is enough")
    run = made.prepare(name, "proof")
    assert tip_words(made.state()).endswith(f"{expected}its proof goes on")
    made.end(run, 0.66)
    assert tip_words(made.state()) == f"#4 Try {name}: proved and kept, the best so far"
