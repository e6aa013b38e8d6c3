"""Which ideas are had again, and which a person vetoed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.campaign.duplicates import Earlier, all_earlier, fate, resolved, twin, vetoed
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.state import CampaignState

RECIPE = {"optim": {"lr": 1e-6, "betas": [0.9, 0.95]}, "group": 8}


def code(sentence: str, *paths: str, slug: str = "x", **more: Any) -> Hypothesis:
    return Hypothesis(slug, sentence, kind="code", paths=paths, **more)


def config(slug: str = "x", **overrides: object) -> Hypothesis:
    return Hypothesis(slug, slug, kind="config", overrides={k.replace("__", "."): v for k, v in overrides.items()})


def had(hypothesis: Hypothesis, parent: str = "baseline", **more: Any) -> Any:
    return Earlier(hypothesis, parent, "discard at 0.4", **more)


def test_equal_values_however_they_are_written() -> None:
    old = had(config("old", optim__lr=3e-6, optim__betas=[0.9, 0.99]))
    again = config("new", optim={"lr": "3e-6", "betas": (0.9, 0.99)}, group=8.0)
    why = "it sets the same values as old on the same parent (baseline), which was discard at 0.4"
    assert twin(again, "baseline", [old], RECIPE) == why
    assert not twin(again, "baseline", [old])  # without the recipe nobody knows that the group is 8 anyway
    assert not twin(config("new", optim__lr=3.1e-6), "baseline", [old], RECIPE)
    assert not twin(config("new", optim__lr=3e-6), "baseline", [old], RECIPE)


def test_what_changes_nothing_is_refused() -> None:
    same = config("same", group=8)
    assert twin(same, "baseline", [], RECIPE) == "it changes nothing: baseline has these values already"
    assert not twin(same, "baseline", [])
    assert not twin(code("And more", "a.py", overrides={"group": 8}), "baseline", [], RECIPE)


def test_another_parent_makes_it_another_idea() -> None:
    old = had(config("old", group=16))
    assert twin(config("new", group=16), "baseline", [old])
    assert not twin(config("new", group=16), "wider", [old])


def test_what_never_had_its_chance_may_come_again() -> None:
    assert not twin(config("new", group=16), "baseline", [had(config("old", group=16), again=True)])


def test_a_title_tells_nothing_of_code() -> None:
    old = had(code("Penalise long answers: they are cut", "reward.py"))
    assert not twin(code("Penalise long answers", "reward.py"), "baseline", [old])
    assert not twin(Hypothesis("x", "Penalise long answers", overrides={"group": 4}), "baseline", [old])


@pytest.mark.parametrize(
    ("veto", "refused"),
    [
        ("shaped", True),
        ("optim.lr", True),
        ("src/reward.py", True),
        ("no reward shaping", True),
        ("reward shaping, please", True),
        ("shape", False),
        ("optim", False),
        ("no data mixing", False),
        ("no", False),
        ("", False),
    ],
)
def test_vetoes(veto: str, refused: bool) -> None:
    one = code("Shape the reward by progress", "src/reward.py", slug="shaped", overrides={"+optim.lr": 1})
    assert bool(vetoed(one, {veto})) is refused


@pytest.fixture
def state(records: Callable[..., Any]) -> CampaignState:
    """A campaign that has had ideas of every fate; `good` is its best."""
    made = records(empty=True)
    made.idea("baseline")
    made.run("baseline", 0.5)
    made.idea("good", overrides={"a": 1})
    made.run("good", 0.6)
    for slug, failure, idea in (
        ("oom", "cuda_oom", {"overrides": {"a": 2}}),
        ("died", "runner_died", {"overrides": {"a": 3}}),
        ("unmade", "researcher_failed", {"kind": "code", "paths": ("x.py",), "unmade": "researcher_failed"}),
        ("empty", "empty_diff", {"kind": "code", "paths": ("y.py",), "unmade": "empty_diff"}),
    ):
        made.idea(slug, parent="good", **idea)
        made.run(slug, None, "crash", failure=failure)
    made.idea("live", parent="good", overrides={"a": 4})
    made.start("live")
    made.note("skipped", hypothesis=Hypothesis("no", "no", overrides={"a": 5}).to_json(), reason="no key a")
    found: CampaignState = made.state()
    return found


def test_everything_that_was_had(state: CampaignState) -> None:
    waiting = [Hypothesis("queued", "q", parent="baseline", overrides={"a": 6})]
    found = {one.hypothesis.slug: one for one in all_earlier(state, waiting)}
    assert {slug: one.fate for slug, one in found.items()} == {
        "good": "keep at 0.6",
        "oom": "crash (cuda_oom)",
        "died": "crash (runner_died)",
        "unmade": "never ran: researcher_failed",
        "empty": "never ran: empty_diff",
        "live": "still under way",
        "no": "refused: no key a",
        "queued": "waiting to be begun",
    }
    assert {slug for slug, one in found.items() if one.again} == {"unmade"}
    assert (found["no"].parent, found["queued"].parent, found["oom"].parent) == ("good", "baseline", "good")


def test_best_is_whatever_is_best_now(state: CampaignState) -> None:
    assert resolved(state, "best") == "good" and resolved(state, "baseline") == "baseline"
    assert fate(state.ideas[0]) == "keep at 0.5"
    assert twin(config("x", a=2), resolved(state, "best"), all_earlier(state)).endswith("crash (cuda_oom)")
