"""Durations as people write them, each with a near miss."""

from __future__ import annotations

import pytest

from autoresearch.core.text.durations import (
    LONGEST_S,
    find_durations,
    normalise,
    parse_duration,
    problem,
    spoken,
)
from autoresearch.errors import UsageError

H, M = 3600.0, 60.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20m", 20 * M),
        ("24h", 24 * H),
        ("1h30m", 1.5 * H),
        ("90 min", 90 * M),
        ("  24 hours ", 24 * H),
        ("2 weeks", 14 * 24 * H),
        ("1 hour and 30 minutes", 1.5 * H),
        ("5 minutes, 30 seconds", 330.0),
        ("1,000 seconds", 1000.0),
        ("01:30:00", 1.5 * H),
        ("2-00:00:00", 48 * H),
        ("24小时", 24 * H),
        ("1小时30分", 1.5 * H),
        ("90", 90.0),
        ("0s", 0.0),
    ],
)
def test_parse(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1h30",
        "24 hoursx",
        "1,5h",
        "第一天",
        "十分重要",
        "twelve hours",
        "-5 hours",
        "25:99:00",
        "nan",
        "1e400 h",
        "9" * 400 + "h",
        "400 days",
        "12 h 3 h",
        "24 hours and 20 minutes to the first step",
        "1h; rm -rf /",
    ],
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(text)
    assert len(caught.value.message) < 160
    assert "20m" in caught.value.hint
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("24 hours and 20 minutes to the first step", [24 * H, 20 * M]),
        ("24 hours in all, 20 minutes to the first step", [24 * H, 20 * M]),
        ("between 20-30 minutes", [30 * M]),
        ("qwen2-7b on 8 gpus in step 3 d2", []),
        ("it matters; 十分重要；第一步", []),
        ("a second agent runs 3 d later", [3 * 24 * H]),
        ("at 2026-04-16, 17:27:09 hours", [17 * H + 27 * M + 9]),
    ],
)
def test_find_in_prose(text: str, seconds: list[float]) -> None:
    assert [f.seconds for f in find_durations(normalise(text))] == seconds


def test_problem() -> None:
    assert problem(1.0) == ""
    assert problem(LONGEST_S) == ""
    for bad in (0.0, -1.0, float("nan"), float("inf"), LONGEST_S + 1):
        assert problem(bad)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1.0, "1 second"),
        (8.1, "8.1 seconds"),
        (5400.0, "90 minutes"),
        (86400.0, "24 hours"),
        (3700.0, "1 hour 1 minute 40 seconds"),
        (299997 * 60.0, "208 days 7 hours 57 minutes"),
        (8.0999999999999996, "8.1 seconds"),
    ],
)
def test_spoken_reads_well(seconds: float, words: str) -> None:
    assert spoken(seconds) == words
    assert parse_duration(words) == seconds
