"""The cadence of reports: 30 s, 1, 2, 4, 8, 16 min, never past a limit."""

from __future__ import annotations

import pytest

from autoresearch.core.run.limits import nap


@pytest.mark.parametrize(
    ("looks", "seconds"), [(0, 30), (1, 60), (2, 120), (3, 240), (4, 480), (5, 960), (6, 960), (10_000, 960)]
)
def test_the_published_cadence(looks: int, seconds: float) -> None:
    assert nap(looks) == seconds


@pytest.mark.parametrize(
    ("looks", "limit", "seconds"), [(5, 310.0, 310.0), (0, 31.0, 30.0), (3, 0.0, 0.0), (3, -5.0, 0.0)]
)
def test_a_nap_never_sleeps_through_a_limit(looks: int, limit: float, seconds: float) -> None:
    assert nap(looks, until_limit_s=limit) == seconds


def test_a_limit_of_twenty_minutes_is_noticed_on_time() -> None:
    clock, looks = 0.0, 0
    while clock < 1200:
        clock += nap(looks, until_limit_s=1200 - clock)
        looks += 1
    assert clock == 1200  # plain backoff looks at 930 s and then at 1890 s
