"""Deviations of a campaign from its plan, in words."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState
from autoresearch.lab.plans.stage_conclusion import deviations


@pytest.mark.parametrize(
    ("timeline", "added", "expected"),
    [
        ([], 0, []),
        ([{"do": "started"}, {"do": "state", "state": "waiting"}], 0, []),
        ([{"do": "rules", "count": 9}], 0, ["stop rules changed to count 9 (by `campaign set`)"]),
        (
            [{"do": "state", "state": "waiting"}, {"do": "rules", "count": 3}],
            0,
            ["stop rules changed to count 3 (its ideas were used up)"],
        ),
        (
            [
                {"do": "state", "state": "waiting"},
                {"do": "state", "state": "running"},
                {"do": "rules", "deadline": 7.0},
            ],
            0,
            ["stop rules changed to deadline 7.0 (by `campaign set`)"],
        ),
        ([{"do": "unwanted", "slug": "a", "reason": "too slow"}], 0, ["idea a was skipped: too slow"]),
        ([{"do": "fixed", "slug": "a", "note": "a typo"}], 0, ["idea a was repaired: a typo"]),
        ([{"do": "told", "how": "drain", "reason": "late"}], 0, ["it was told to drain: late"]),
        ([{"do": "told", "how": ""}], 0, []),  # continued after its end
        ([], 2, ["ideas were added by hand (`campaign add`: 2)"]),
    ],
)
def test_each_change_is_named(timeline: list[dict[str, Any]], added: int, expected: list[str], spec: Any) -> None:
    assert list(deviations(CampaignState(spec, timeline=timeline), added=added)) == expected


def test_what_was_never_tried_comes_last(spec: Any) -> None:
    state = CampaignState(spec, skipped=[(Hypothesis("a", "try a"), "the same as b")])
    assert list(deviations(state, added=1))[1] == "idea a was never tried: the same as b"


@pytest.fixture
def spec() -> Any:
    return CampaignSpec.__new__(CampaignSpec)  # nothing of it is read
