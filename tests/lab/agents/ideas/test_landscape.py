"""Where each key was tried, and what the objective did there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.state import Idea
from autoresearch.lab.agent_work.landscape import MOST_VALUES, effective, landscape

pytestmark = pytest.mark.system

BASE: dict[str, object] = {"lr": 0.1, "hidden": 96, "seed": 0, "mode": "a"}


def test_values_count_through_all_that_an_idea_is_built_on(lived: Any) -> None:
    state = lived.state()
    assert effective(state, state.by_slug("child")) == {"lr": 0.2}
    (axis,) = landscape(state, BASE)
    assert [(s.text, round(s.mean, 4), s.ideas) for s in axis.spots] == [
        ("0.05", 0.42, 1),
        ("0.1", 0.5, 1),
        ("0.2", 0.6288, 4),
        ("0.3", 0.7033, 1),
    ]
    assert axis.key == "lr"
    merge = Idea(99, Hypothesis("tip", "A merge", merges=("lr-up", "best")), parent="baseline")
    assert effective(state, merge) == {"lr": 0.3}, "what a merge is made of counts"


def test_many_values_are_put_into_ranges_and_words_are_not_numbers(campaign: Callable[..., Any]) -> None:
    made = campaign()
    for n in range(20):
        made.idea(f"i{n}", git=False, overrides={"lr": 0.2 + n / 100, "mode": "b" if n % 2 else "a", "+new": n})
        made.run(f"i{n}", 0.6 + n / 100, "discard", curve=False)
    axes = {axis.key: axis for axis in landscape(made.state(), BASE)}
    assert len(axes["lr"].spots) <= MOST_VALUES and sum(s.ideas for s in axes["lr"].spots) == 21
    assert axes["lr"].spots[0].text == "0.1 to 0.21"
    assert [(s.text, s.ideas) for s in axes["mode"].spots] == [("a", 11), ("b", 10)]
    assert "new" in axes


def test_what_was_set_once_and_never_measured_is_no_axis(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("crashed", git=False, overrides={"lr": 0.3})
    made.run("crashed", None, "crash", curve=False)
    assert landscape(made.state(), BASE) == []
