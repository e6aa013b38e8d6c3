"""Patterns that are compiled late: each must compile, and behave as a compiled one."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import autoresearch
from autoresearch.core.text.durations import _short, find_durations, normalise, parse_duration
from autoresearch.runner.basics import LazyPattern


def test_every_late_pattern_of_the_house_compiles() -> None:
    found = 0
    for module in pkgutil.walk_packages(autoresearch.__path__, "autoresearch."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, LazyPattern):
                    found += 1
                    assert isinstance(value.pattern, str | bytes)
    assert found > 200


@pytest.mark.parametrize("text", ["0s", "3s", "100s", "20m", "24h", "8784h", "00007m"])
def test_the_short_way_to_a_duration_says_what_the_long_one_says(text: str) -> None:
    (found,) = find_durations(normalise(text))
    assert _short(text) == found.seconds == parse_duration(text)
