"""A campaign whose controller, runs, terminal and files are taken away at any moment: nothing lost, nothing twice."""

from __future__ import annotations

from typing import Any


def test_undisturbed(crashes: Any) -> None:
    crashes.start("--count", 4)
    crashes.ended(4)
