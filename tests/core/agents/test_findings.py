"""Findings: what is taken of an answer, and when it is summed up."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.agents.findings import (
    ALL,
    EVERY,
    IdeaFinding,
    StandingFindings,
    read_findings,
    standing_findings,
)
from autoresearch.core.agents.turns import Research


def answered(*pairs: tuple[Any, Any], so_far: StandingFindings = StandingFindings()) -> list[IdeaFinding]:
    data = {"hypotheses": [], "findings": [{"idea": idea, "text": text} for idea, text in pairs]}
    return read_findings(data, ("lr-up", "gain"), so_far)


def test_it_stands_as_the_agent_wrote_it_on_one_line() -> None:
    (found,) = answered(("lr-up", "It reached 0.91.\nThe step\twas too small."))
    assert found.text == "It reached 0.91. The step was too small."
    line = {"do": "finding", **found.to_json()}
    assert IdeaFinding.from_json(line) == IdeaFinding.from_json({**line, "wrong": ["0.9"]}) == found, "as before, too"


@pytest.mark.parametrize(
    "data", [None, [], {}, {"findings": None}, {"findings": "x"}, {"findings": [None, 3, "x", {}]}]
)
def test_an_answer_without_findings_has_none(data: object) -> None:
    assert read_findings(data, ("lr-up",), StandingFindings()) == []
    unusable = (("other", "Not asked."), ("lr-up", " "), ("lr-up", "\x00"), ("lr-up", 3), (None, "x"))
    assert answered(*unusable, (ALL, "Too early.")) == []


def test_ten_are_summed_up_and_each_is_kept() -> None:
    ten = [IdeaFinding(f"idea-{n}", "Something.") for n in range(EVERY)]
    assert not standing_findings(ten[1:]).summary_due
    before = standing_findings(ten)
    assert before.summary_due and before.summary is None
    assert answered((ALL, "\x00"), so_far=before) == [], "one without words would hide the ten"
    (summary,) = answered((ALL, "Steps were too small."), so_far=before)
    assert summary.text == "Steps were too small."
    after = standing_findings([*ten, summary, IdeaFinding("lr-up", "More."), IdeaFinding("lr-up", "Better.")])
    assert after.summary == summary and [one.text for one in after.since] == ["Better."]
    research = Research()
    for one in (*ten, summary):
        research.take({"t": 1.0, "do": "finding", **one.to_json()})
    assert standing_findings(research.findings) == StandingFindings(summary)
