"""What replicates say of the noise."""

from __future__ import annotations

import math

import pytest

from autoresearch.core.statistics.noise import UNKNOWN, Noise, mean, measured, noise_of


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


def test_numbers_at_the_edge() -> None:
    assert measured([1, None, math.nan, -math.inf, 0.0]) == [1, 0.0]
    assert mean([0.1] * 3) == 0.1  # not 0.10000000000000002
    assert mean([1.7e308, 1.6e308]) == pytest.approx(1.65e308)
    assert noise_of([[1.7e308, -1.7e308]]).sd == math.inf  # and no exception
    assert noise_of([[5.0, 5.0]]).sd == 0.0
