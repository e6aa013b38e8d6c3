"""A researcher's plan: what its strict JSON means as `plan.yaml`, and every way in which it means nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.plans.agent_answer import SCHEMA, plan_of
from autoresearch.core.plans.model import read_plan

ANSWER: dict[str, Any] = {
    "title": "Does the learning rate matter?",
    "question": "What remains?",
    "stages": [
        {
            "name": "screen", "question": "Which one?", "blueprint": "exp.md", "proposer": "ideas", "space": [],
            "ideas": [{"slug": "lr-high", "sentence": "higher", "expected": "",
                       "overrides": [{"key": "lr", "value": "0.9"}, {"key": "opt.name", "value": "adam"}]}],
            "settings": [{"key": "timeout", "value": "2m"}, {"key": "confirm", "value": "false"}],
            "expectation": {"sentence": "It wins.", "when": "delta(lr-high) > 0"},
            "outcomes": [{"when": "otherwise", "conclusion": "So.", "next": "search"}], "most_runs": 1,
        },
        {
            "name": "search", "question": "How far?", "blueprint": "exp.md", "proposer": "tpe", "ideas": [],
            "space": [{"key": "lr", "value": '{"low": 0.1, "high": 1.0}'}],
            "settings": [{"key": "count", "value": "4"}],
            "expectation": {"sentence": "Further.", "when": "kept"},
            "outcomes": [{"when": "otherwise", "conclusion": "So.", "next": "end"}], "most_runs": 1,
        },
    ],
}  # fmt: skip


def test_it_means_a_plan() -> None:
    plan, problems = plan_of(ANSWER)
    assert problems == []
    first, second = plan["stages"]
    assert first["campaign"] == {"blueprint": "exp.md", "timeout": "2m", "confirm": False}
    assert first["ideas"] == [{"slug": "lr-high", "sentence": "higher", "overrides": {"lr": 0.9, "opt.name": "adam"}}]
    assert second["campaign"]["space"] == {"lr": {"low": 0.1, "high": 1.0}} and "ideas" not in second
    assert read_plan(plan).plan is not None


CASES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda a: a.update(stages="none"), "stages: is no list"),
    (lambda a: a["stages"].append(3), "stages[2]: is no object"),
    (lambda a: a["stages"][0].update(ideas=[]), "stages[0].ideas: is empty"),
    (lambda a: a["stages"][0].update(ideas="lr"), "stages[0].ideas: is no list"),
    (lambda a: a["stages"][0]["ideas"].append("lr"), "stages[0].ideas[1]: is no object"),
    (lambda a: a["stages"][0]["ideas"][0].update(overrides={"lr": 1}), "stages[0].ideas[0].overrides: is no list"),
    (lambda a: a["stages"][0]["ideas"][0]["overrides"].append("lr"), "overrides[2]: is no {key, value}"),
    (lambda a: a["stages"][0]["ideas"][0]["overrides"].append({"key": "a", "value": "[1"}), "begins like JSON"),
    (lambda a: a["stages"][0]["ideas"][0]["overrides"].append({"key": "data.seed", "value": "1"}), "is a seed"),
    (lambda a: a["stages"][1]["space"].append({"key": "trainer.test_freq", "value": "[1, 2]"}), "is validation"),
    (lambda a: a["stages"][1].update(space=[]), "stages[1].space: is empty"),
    (lambda a: a["stages"][1].update(ideas=a["stages"][0]["ideas"]), "stages[1].ideas: are given"),
    (lambda a: a["stages"][1]["settings"].append({"key": "sandbox", "value": "off"}), "`sandbox` is none of"),
    (lambda a: a["stages"][1]["settings"].append({"key": "base", "value": "main"}), "`base` is none of"),
    (lambda a: a["stages"][0].update(code="x"), "there is no key `code`"),
]


@pytest.mark.parametrize(("change", "words"), CASES)
def test_what_means_nothing(change: Callable[[dict[str, Any]], object], words: str) -> None:
    answer = copy.deepcopy(ANSWER)
    change(answer)
    _, problems = plan_of(answer)
    assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize("data", [None, "prose", 3, []])
def test_no_object(data: object) -> None:
    assert plan_of(data)[1] == ["the answer is no object with the keys title, question, stages"]


def test_the_schema_is_strict() -> None:
    """As OpenAI's structured output wants it: every object closed, every property required, no free map."""

    def look(schema: Any, path: str) -> None:
        assert set(schema) <= {"type", "properties", "required", "additionalProperties", "items", "enum", "description"}
        if schema["type"] == "object":
            assert schema["additionalProperties"] is False and schema["required"] == list(schema["properties"]), path
            for name, one in schema["properties"].items():
                look(one, f"{path}.{name}")
        if schema["type"] == "array":
            look(schema["items"], f"{path}[]")

    look(SCHEMA, "")
