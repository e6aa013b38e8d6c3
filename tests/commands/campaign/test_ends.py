"""How a campaign ends: by count, by deadline, by target, by budget; it says so in words."""

from __future__ import annotations

from typing import Any

LR = {"lr": {"low": 0.001, "high": 0.1, "log": True}}


def test_by_count_with_tpe_in_two_slots(camp: Any) -> None:
    view = camp.run(count=24, parallel=2, space=LR, retests=1, confirm=False)
    assert view.attempted == 24
    assert view.reason == "stop condition met: 24/24 ideas attempted"
