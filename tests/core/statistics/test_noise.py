"""What replicates say of the noise."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from autoresearch.core.statistics.noise import UNKNOWN, Noise, mean, measured, noise_of, variance


@pytest.mark.parametrize(
    ("values", "sd", "df"),
    [
        ([], None, 0),
        ([3.0], None, 0),
        ([3.0, None, math.nan, math.inf], None, 0),
        ([1.0, 3.0], math.sqrt(2), 1),
        ([1.0, None, 3.0], math.sqrt(2), 1),
        ([1.0, 2.0, 3.0], 1.0, 2),
        ([1.0, 2.0, 3.0, 4.0, 5.0], math.sqrt(2.5), 4),
        ([0.1, 0.1, 0.1], 0.0, 2),
    ],
)
def test_one_idea(values: list[float | None], sd: float | None, df: int) -> None:
    noise = noise_of([values])
    assert noise.sd == (None if sd is None else pytest.approx(sd))
    assert (noise.df, noise.known) == (df, df > 0)


def test_only_spreads_within_ideas_are_pooled() -> None:
    noise = noise_of([[1.0, 3.0], [101.0, 102.0, 103.0], [7.0]])  # squares 2 + 2, degrees of freedom 1 + 2
    assert (noise.df, noise.variance) == (3, pytest.approx(4 / 3))
    assert noise == noise_of([[1.0, 3.0]]).plus([101.0, 102.0, 103.0])


def test_an_idea_that_is_not_replicated_changes_nothing() -> None:
    noise = Noise(4.0, 2)
    assert noise.plus([9.0]) == noise.plus([]) == noise.plus([None, math.nan]) == noise
    assert UNKNOWN.plus([9.0]) == UNKNOWN


def test_pooled_as_the_textbook_has_it() -> None:
    rng = random.Random(1)
    groups = [[rng.gauss(i, 2) for _ in range(n)] for i, n in enumerate((3, 4, 1, 6, 2))]
    several = [g for g in groups if len(g) > 1]
    squares = sum(statistics.variance(g) * (len(g) - 1) for g in several)
    assert noise_of(groups).variance == pytest.approx(squares / sum(len(g) - 1 for g in several))
    assert variance(groups[0]) == pytest.approx(statistics.variance(groups[0]))


def test_it_gets_surer() -> None:
    rng = random.Random(2)
    few = [noise_of([[rng.gauss(0, 1) for _ in range(3)]]).sd for _ in range(200)]
    many = [noise_of([[rng.gauss(0, 1) for _ in range(3)] for _ in range(20)]).sd for _ in range(200)]
    assert sum(abs((sd or 0) - 1) > 0.5 for sd in few) > 50  # three replicates alone are often far off
    assert not any(abs((sd or 0) - 1) > 0.5 for sd in many)


def test_wording() -> None:
    assert UNKNOWN.wording == "noise unknown"
    assert noise_of([[1.0, 2.0, 3.0]]).wording == "sd 1, 2 df"


def test_numbers_at_the_edge() -> None:
    assert measured([1, None, math.nan, -math.inf, 0.0]) == [1, 0.0]
    assert mean([0.1] * 3) == 0.1  # not 0.10000000000000002
    assert mean([1.7e308, 1.6e308]) == pytest.approx(1.65e308)
    assert noise_of([[1.7e308, -1.7e308]]).sd == math.inf  # and no exception
    assert noise_of([[5.0, 5.0]]).sd == 0.0
