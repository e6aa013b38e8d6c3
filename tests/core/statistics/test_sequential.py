"""Looks at a growing sample: their levels and the adjusted estimate, against simulated random walks."""

from __future__ import annotations

import math
import random
from statistics import NormalDist

import pytest

from autoresearch.core.statistics.confirmation import design_at, estimate, levels

SIZES = (4, 6, 8)
PLAN = design_at(0.04, SIZES)
UPPER = NormalDist().inv_cdf


def walk(rng: random.Random, sizes: tuple[int, ...], theta: float) -> list[float]:
    """z-values at the looks."""
    found, at, before = [], 0.0, 0.0
    for size in sizes:
        t = size / sizes[-1]
        at += rng.gauss(theta * (t - before), math.sqrt(t - before))
        before = t
        found.append(at / math.sqrt(t))
    return found


def test_a_single_look_has_the_whole_level() -> None:
    assert levels(0.03, (6,)) == pytest.approx((0.03,), abs=1e-6)


def test_the_first_look_has_its_share_and_a_test_ends_without_a_claim_where_little_speaks_for_one() -> None:
    assert PLAN.levels[0] == pytest.approx(0.02, abs=1e-6) and PLAN.futile == pytest.approx((0.5, 0.25))


@pytest.mark.parametrize(
    ("alpha", "sizes", "planned"),
    [(0.04, SIZES, 0), (0.02, (5, 7, 9), 0), (0.04, (5, 7, 10, 15, 22, 33, 40), 0), (0.04, (5, 7, 10, 13), 40)],
)
def test_all_looks_together_spend_the_level(alpha: float, sizes: tuple[int, ...], planned: int) -> None:
    """20,000 walks: the standard error is 0.0014. The last test was cut by its deadline."""
    rng, bounds = random.Random(1), [-UPPER(p) for p in levels(alpha, sizes, planned)]
    crossed = sum(any(z > b for z, b in zip(walk(rng, sizes, 0.0), bounds, strict=True)) for _ in range(20_000))
    assert crossed / 20_000 == pytest.approx(alpha, abs=0.0045)


def test_a_result_beyond_all_doubt_is_estimated_as_it_is() -> None:
    found = estimate(PLAN, 0, 170.0)
    ends = [(170 + d) / math.sqrt(0.5) for d in (UPPER(0.05), 0, UPPER(0.95))]
    assert [found.low, found.middle, found.high] == pytest.approx(ends, abs=1e-3)


def test_a_claim_at_a_later_look_is_taken_down() -> None:
    """A first look estimates as a test without looks does; the same z at a later one was preceded by worse ones."""
    first, last = estimate(PLAN, 0, 2.3), estimate(PLAN, 2, 2.3)
    assert first.middle == pytest.approx(2.3 / math.sqrt(0.5), abs=1e-3)
    assert last.middle < 2.3 - 0.1
