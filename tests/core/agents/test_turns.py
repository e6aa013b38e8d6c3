"""What the journal tells of an agent's turns, and of what it found: what is taken of an answer, and summed up."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from autoresearch.core.agents.agent import TurnFault
from autoresearch.core.agents.proposals import read_findings
from autoresearch.core.agents.turns import ALL, EVERY, IdeaFinding, Research, StandingFindings, standing_findings


def test_denied_actions_are_told_once() -> None:
    research = Research()
    assert research.denied_words == ""
    for name, denied in (("1", ["Bash pytest -q", "Edit /data/val.jsonl"]), ("2", []), ("3", ["Bash pytest -q"])):
        research.take({"do": "turn", "name": name, "role": "edit", "denied": denied})
    assert research.denied_words == "not permitted: Bash pytest -q, Edit /data/val.jsonl"


def test_a_fault_of_another_version_is_one_that_ended_the_turn() -> None:
    research = Research()
    research.take({"do": "turn", "name": "1", "role": "fix", "fault": "session", "said": "no such session"})
    assert research.turns["1"].fault is TurnFault.ENDED


def test_a_turn_that_was_ended_early_costs_what_its_tokens_cost_elsewhere() -> None:
    """By the same agent's turns that told both; another agent's prices say nothing."""
    research = Research()
    told = {"role": "edit", "do": "turn", "tokens_in": 900, "tokens_out": 100}
    research.take(told | {"name": "1", "agent": "claude", "usd": 0.5})
    research.take(told | {"name": "2", "agent": "codex"})
    early = {"fault": "timeout", "said": "it took longer than 4 s"}
    research.take(told | {"name": "3", "agent": "claude", "tokens_in": 1900} | early)
    research.take(told | {"name": "4", "agent": "codex"} | early)
    research.take(told | {"name": "5", "agent": "claude", "tokens_in": None, "tokens_out": None} | early)
    assert [turn.usage.usd for turn in research.turns.values()] == [0.5, None, 1.0, None, None]


def test_a_job_from_its_line_to_its_end() -> None:
    """Each question with its tries; what it waits for is over when it is asked again."""
    research, job = Research(), {"kind": "edit", "slug": "x", "agent": "claude", "usd": 1.0, "editor": 2}
    research.take({"do": "job", **job, "parent": "best"})
    for name, again in (("0001-edit", False), ("0002-edit", True), ("0003-review", False)):
        research.take({"do": "asking", "job": "edit x", "turn": name, "again": again})
        if name == "0001-edit":
            waits = {"role": "edit", "fault": "quota", "said": "429", "until": 60.0, "tries": 1}
            research.take({"do": "waits", "job": "edit x", **waits})
            assert [one.name for one in research.waiting] == ["edit x"]
    (found,) = research.jobs.values()
    assert found.questions == (("0001-edit", "0002-edit"), ("0003-review",)) and found.waits is None
    research.take({"do": "job_over", "ends": "edit x"})
    assert not research.jobs


def answered(*pairs: tuple[Any, Any], so_far: StandingFindings = StandingFindings()) -> list[IdeaFinding]:
    data = {"hypotheses": [], "findings": [{"idea": idea, "text": text} for idea, text in pairs]}
    return read_findings(data, ("lr-up", "gain"), so_far)


def test_it_stands_as_the_agent_wrote_it_on_one_line() -> None:
    (found,) = answered(("lr-up", "It reached 0.91.\nThe step\twas too small."))
    assert found.text == "It reached 0.91. The step was too small."
    research = Research()
    research.take({"t": 1.0, "do": "finding", **asdict(found), "wrong": ["0.9"]})  # as before, too
    assert research.findings == [found]


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
        research.take({"t": 1.0, "do": "finding", **asdict(one)})
    assert standing_findings(research.findings) == StandingFindings(summary)
