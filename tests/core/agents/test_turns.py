"""What the journal tells of an agent's turns."""

from __future__ import annotations

from autoresearch.core.agents.turns import Research


def turn(name: str, *denied: str) -> dict[str, object]:
    return {"do": "turn", "name": name, "role": "edit", **({"denied": [*denied]} if denied else {})}


def test_denied_actions_are_counted_by_tool_and_first_word() -> None:
    research = Research()
    assert research.denied_words == ""
    research.take(turn("0001-edit", "Bash pytest -q", "Bash pytest tests", "Edit /data/val.jsonl"))
    research.take(turn("0002-edit"))
    research.take(turn("0003-fix", "Bash pytest", "codex's sandbox: patch rejected: writing outside of the project"))
    assert research.denied_words == (
        "5 actions were denied: Bash(pytest ...) 2 times, Edit(/data/val.jsonl), Bash(pytest), "
        "codex's sandbox: patch rejected: writing outside of the project"
    )
    research.take(turn("0004-edit", *(f"Bash {word} x" for word in "abcdefg")))
    assert research.denied_words.endswith("and 6 others")


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
    research.take({"do": "job", **job, "parent": "best", "resumes": False})
    for name, again in (("0001-edit", False), ("0002-edit", True), ("0003-review", False)):
        research.take({"do": "asking", "job": "edit x", "turn": name, "again": again})
        if name == "0001-edit":
            waits = {"role": "edit", "fault": "quota", "said": "429", "until": 60.0, "tries": 1}
            research.take({"do": "waits", "job": "edit x", **waits})
            assert [one.name for one in research.waiting] == ["edit x"]
    (found,) = research.jobs.values()
    assert found.questions == (("0001-edit", "0002-edit"), ("0003-review",)) and found.waits is None
    assert research.edited == {"x": ("claude", 2)}
    research.take({"do": "job_over", "ends": "edit x"})
    assert not research.jobs
