"""Student's t against the tables of the textbooks; Fisher's exact test, by enumeration."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import NormalDist

import pytest

from autoresearch.core.statistics.student_t import share_p, t_cdf, t_quantile

TABLE = [  # p, df, t: any statistics textbook's table of critical values
    (0.90, 1, 3.078),
    (0.95, 1, 6.314),
    (0.975, 1, 12.706),
    (0.995, 1, 63.657),
    (0.95, 2, 2.920),
    (0.975, 2, 4.303),
    (0.95, 3, 2.353),
    (0.99, 3, 4.541),
    (0.95, 5, 2.015),
    (0.975, 5, 2.571),
    (0.95, 10, 1.812),
    (0.995, 10, 3.169),
    (0.95, 30, 1.697),
    (0.975, 30, 2.042),
    (0.975, 120, 1.980),
    (0.9995, 4, 8.610),
]


@pytest.mark.parametrize(("p", "df", "t"), TABLE)
def test_the_table(p: float, df: float, t: float) -> None:
    assert t_quantile(p, df) == pytest.approx(t, abs=6e-4)
    assert t_cdf(t, df) == pytest.approx(p, abs=1e-4)


def test_many_degrees_of_freedom_are_the_normal_distribution() -> None:
    for p in (0.6, 0.9, 0.95, 0.999):
        assert t_quantile(p, 1e6) == pytest.approx(NormalDist().inv_cdf(p), abs=1e-4)


@pytest.mark.parametrize("df", [0.5, 1, 1.7, 4, 33.3, 2000])
@pytest.mark.parametrize("p", [1e-6, 0.04, 0.3, 0.5, 0.77, 0.9996])
def test_the_quantile_inverts(p: float, df: float) -> None:
    assert t_cdf(t_quantile(p, df), df) == pytest.approx(p, rel=1e-9)
    assert t_quantile(1 - p, df) == pytest.approx(-t_quantile(p, df), rel=1e-6, abs=1e-12)


def test_the_ends() -> None:
    assert t_cdf(math.inf, 3) == 1
    assert t_cdf(-math.inf, 3) == 0
    assert t_cdf(1e200, 3) == 1
    assert t_quantile(0.5, 3) == 0


@pytest.mark.parametrize("p", [0.0, 1.0, -1.0, math.nan])
def test_no_probability(p: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_quantile(p, 3)


@pytest.mark.parametrize("df", [0, -1, math.nan])
def test_no_degrees_of_freedom(df: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        t_cdf(1.0, df)


@pytest.mark.parametrize(("ours", "theirs"), [((2, 4), (1, 6)), ((0, 3), (2, 5)), ((3, 3), (0, 4)), ((1, 8), (0, 13))])
def test_it_counts_the_ways(ours: tuple[int, int], theirs: tuple[int, int]) -> None:
    runs = ours[1] + theirs[1]
    failed = set(range(ours[0] + theirs[0]))
    ways = [len(failed & set(some)) >= ours[0] for some in combinations(range(runs), ours[1])]
    assert share_p(ours, theirs) == pytest.approx(sum(ways) / len(ways))
