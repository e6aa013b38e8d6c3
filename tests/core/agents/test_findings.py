"""Findings: which sentences stand, which are left out for a number of no record, and when they are summed up."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.agents.findings import (
    ALL,
    EVERY,
    IdeaFinding,
    StandingFindings,
    read_findings,
    sentences,
    standing_findings,
)
from autoresearch.core.agents.quoted_numbers import IdeaNumbers, KnownNumbers
from autoresearch.core.agents.turns import Research

NUMBERS = KnownNumbers(
    {"lr-up": IdeaNumbers([0.2656, 0.168], [0.001, 16.0]), "gain": IdeaNumbers([0.3555], [8.0])},
    IdeaNumbers([0.1667], [0.0023, *range(13)]),
    {"pass@1"},
)


def answered(*pairs: tuple[Any, Any], so_far: StandingFindings = StandingFindings()) -> list[IdeaFinding]:
    data = {"hypotheses": [], "findings": [{"idea": idea, "text": text} for idea, text in pairs]}
    return read_findings(data, ("lr-up", "gain"), so_far, NUMBERS)


@pytest.mark.parametrize(
    ("text", "kept", "wrong"),
    [
        (
            "It rose from 0.168 to 0.2656. The step was too small.",
            "It rose from 0.168 to 0.2656. The step was too small.",
            (),
        ),
        ("It gained 0.098 by step 16, or 58%. Go on.", "It gained 0.098 by step 16, or 58%. Go on.", ()),
        ("It reached 0.91. The step was too small.", "The step was too small.", ("0.91",)),
        ("At step 40 it was best. It had 2 of 3 runs.", "It had 2 of 3 runs.", ("40",)),
        ("It has the 0.3555 of another.", "", ("0.3555",)),
        ("gain had 0.3555, and this 0.2656.", "gain had 0.3555, and this 0.2656.", ()),
        ("One. Two. Three. Four.", "One. Two. Three.", ()),
    ],
)
def test_a_sentence_with_a_number_of_no_record_is_left_out(text: str, kept: str, wrong: tuple[str, ...]) -> None:
    (found,) = answered(("lr-up", text))
    assert (found.text, found.wrong) == (kept, wrong)
    assert found.words.startswith(kept) and all(number in found.words for number in wrong)
    assert IdeaFinding.from_json({"do": "finding", **found.to_json()}) == found


@pytest.mark.parametrize(
    "data", [None, [], {}, {"findings": None}, {"findings": "x"}, {"findings": [None, 3, "x", {}]}]
)
def test_an_answer_without_findings_has_none(data: object) -> None:
    assert read_findings(data, ("lr-up",), StandingFindings(), NUMBERS) == []
    assert answered(("other", "Not asked."), ("lr-up", " "), ("lr-up", 3), (None, "x"), (ALL, "Too early.")) == []


def test_ten_are_summed_up_and_each_is_kept() -> None:
    ten = [IdeaFinding(f"idea-{n}", "Something.") for n in range(EVERY)]
    assert not standing_findings(ten[1:]).summary_due
    before = standing_findings(ten)
    assert before.summary_due and before.summary is None
    assert answered((ALL, "It reached 0.91."), so_far=before) == [], "one of which nothing is left would hide the ten"
    (summary,) = answered((ALL, "Steps were too small. lr-up had 0.91."), so_far=before)
    assert (summary.text, summary.wrong) == ("Steps were too small.", ("0.91",))
    after = standing_findings([*ten, summary, IdeaFinding("lr-up", "More."), IdeaFinding("lr-up", "Better.")])
    assert after.summary == summary and [one.text for one in after.since] == ["Better."]
    research = Research()
    for one in (*ten, summary):
        research.take({"t": 1.0, "do": "finding", **one.to_json()})
    assert standing_findings(research.findings) == StandingFindings(summary)


def test_a_sentence_ends_where_a_reader_says() -> None:
    assert sentences("It was 0.5 e.g. better.\n\nThen:\tworse! `x` fell?") == [
        "It was 0.5 e.g. better.",
        "Then: worse!",
        "`x` fell?",
    ]
