"""Fisher's exact test, by enumeration."""

from __future__ import annotations

from itertools import combinations

import pytest

from autoresearch.core.statistics.student_t import share_p


@pytest.mark.parametrize(("ours", "theirs"), [((2, 4), (1, 6)), ((0, 3), (2, 5)), ((3, 3), (0, 4)), ((1, 8), (0, 13))])
def test_it_counts_the_ways(ours: tuple[int, int], theirs: tuple[int, int]) -> None:
    runs = ours[1] + theirs[1]
    failed = set(range(ours[0] + theirs[0]))
    ways = [len(failed & set(some)) >= ours[0] for some in combinations(range(runs), ours[1])]
    assert share_p(ours, theirs) == pytest.approx(sum(ways) / len(ways))
