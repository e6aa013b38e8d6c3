"""What the search builds on, and what lost its ground."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.state import Idea, marked

#  1 - 2 - 3 - 5
#    \ 4   \ 6
PARENTS = {1: 0, 2: 1, 3: 2, 4: 1, 5: 3, 6: 3}


def ideas(parents: Mapping[int, int]) -> list[Idea]:
    return [Idea(n, Hypothesis(f"i{n}", ""), f"i{parent}", "", "", "", "") for n, parent in parents.items()]


@pytest.mark.parametrize(
    ("demoted", "confirmed", "found"),
    [
        ((), (), set()),
        ((2,), (), {3, 5, 6}),
        ((3,), (), {5, 6}),
        ((5, 4), (), set()),
        ((2, 3), (), {3, 5, 6}),
        ((2,), (3,), set()),  # beat the baseline by itself
        ((2,), (5,), {3, 6}),
        ((99,), (), set()),
    ],
)
def test_marked(demoted: tuple[int, ...], confirmed: tuple[int, ...], found: set[int]) -> None:
    claims = dict.fromkeys(demoted, "demoted") | dict.fromkeys(confirmed, "confirmed")
    assert marked(ideas(PARENTS), claims) == found


def test_a_circle_in_an_edited_ledger_ends() -> None:
    assert marked(ideas({2: 3, 3: 2, 1: 1}), {7: "demoted"}) == set()
    assert marked(ideas({2: 3, 3: 2}), {3: "demoted"}) == {2, 3}
