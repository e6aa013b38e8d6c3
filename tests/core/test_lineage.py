"""What the search builds on, and what lost its ground."""

from __future__ import annotations

import pytest

from autoresearch.core.campaign.state import incumbent, marked

#  1 - 2 - 3 - 5
#    \ 4   \ 6
PARENTS = {2: 1, 3: 2, 4: 1, 5: 3, 6: 3}


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
        ((2, 3), (3,), set()),  # confirmed in a later round
        ((99,), (), set()),
    ],
)
def test_marked(demoted: tuple[int, ...], confirmed: tuple[int, ...], found: set[int]) -> None:
    assert marked(PARENTS, demoted, confirmed) == found


@pytest.mark.parametrize(
    ("kept", "demoted", "confirmed", "found"),
    [
        ((), (), (), 1),
        ((2,), (), (), 2),
        ((2, 3), (), (), 3),
        ((3, 2), (), (), 2),  # in the order of their decisions
        ((2, 3), (3,), (), 2),
        ((2, 3), (2,), (), 1),
        ((2, 4, 3), (2,), (), 4),
        ((2, 3), (2,), (3,), 3),
        ((2,), (2,), (2,), 2),
    ],
)
def test_incumbent(kept: tuple[int, ...], demoted: tuple[int, ...], confirmed: tuple[int, ...], found: int) -> None:
    assert incumbent(kept, PARENTS, demoted, confirmed) == found


def test_a_circle_in_an_edited_ledger_ends() -> None:
    assert marked({2: 3, 3: 2, 1: 1}, [7]) == set()
    assert marked({2: 3, 3: 2}, [3]) == {2, 3}
