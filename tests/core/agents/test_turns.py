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
