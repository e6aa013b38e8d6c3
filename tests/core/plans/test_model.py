"""A staged plan: what holds together, and every way in which one does not, with the line."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.blueprint.finding import Severity
from autoresearch.core.plans.model import read_plan
from autoresearch.core.plans.plan_text import as_data, plan_lines

PLAN: dict[str, Any] = {
    "title": "Does the learning rate matter?",
    "question": "What remains when it is right?",
    "stages": [
        {
            "name": "screen",
            "question": "Which one?",
            "campaign": {"blueprint": "exp.md"},
            "ideas": [{"slug": "lr-high", "overrides": {"lr": 0.1}}, {"slug": "lr-low", "overrides": {"lr": 0.001}}],
            "expectation": {"sentence": "The higher one wins.", "when": "delta(lr-high) > 0"},
            "outcomes": [
                {"when": "confirmed", "conclusion": "It matters.", "next": "refine"},
                {"when": "otherwise", "conclusion": "Nothing is known.", "next": "revise"},
            ],
        },
        {
            "name": "refine",
            "question": "How far?",
            "campaign": "refine.yaml",
            "expectation": {"sentence": "Further.", "when": "best > baseline"},
            "outcomes": [{"when": "otherwise", "conclusion": "Done.", "next": "end"}],
        },
    ],
}


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    plan = copy.deepcopy(PLAN)
    change(plan)
    return plan


def first(plan: dict[str, Any]) -> dict[str, Any]:
    return plan["stages"][0]


def test_a_plan_that_holds_together() -> None:
    found = read_plan(PLAN)
    assert found.findings == ()
    plan = found.plan
    assert plan is not None and [stage.name for stage in plan.stages] == ["screen", "refine"]
    screen = plan.stages[0]
    assert screen.outcome({"confirmed": 1.0}) == 0 and screen.outcome({"confirmed": 0.0}) == 1
    assert screen.outcome({}) == 1  # not known is not so
    assert screen.outcomes[1].condition == "otherwise" and screen.most_runs == 1
    assert plan.stages[1].campaign == {"file": "refine.yaml"}
    assert plan.stage("nobody") is None
    assert "   otherwise -> revise: Nothing is known." in list(plan_lines(plan))
    assert as_data(plan)["stages"][0]["ideas"] == ["lr-high", "lr-low"]


CASES: list[tuple[Callable[[dict[str, Any]], object], str, str]] = [
    (lambda p: p.pop("title"), "title", "is missing"),
    (lambda p: p.update(title=3), "title", "is a number, not a sentence"),
    (lambda p: p.update(question="TODO what?"), "question", "words of the template"),
    (lambda p: p.update(question="x" * 5000), "question", "4000 are enough"),
    (lambda p: p.update(stagse=[]), "stagse", "unknown key"),
    (lambda p: p.update(stages={}), "stages", "is a mapping, not a list"),
    (lambda p: p.update(stages=[]), "stages", "is missing"),
    (lambda p: p.update(stages=p["stages"] * 11), "stages", "too many"),
    (lambda p: p["stages"].append("third"), "stages[2]", "expected the keys"),
    (lambda p: first(p).update(name="A Name"), "stages[0].name", "cannot name a stage"),
    (lambda p: first(p).update(name="a" * 17), "stages[0].name", "cannot name a stage"),
    (lambda p: first(p).update(name="end"), "stages[0].name", "word of the plan itself"),
    (lambda p: first(p).update(name="refine"), "stages[1].name", "two stages are called"),
    (lambda p: first(p).pop("question"), "stages[0].question", "is missing"),
    (lambda p: first(p).pop("campaign"), "stages[0].campaign", "is missing"),
    (lambda p: first(p).update(campaign={"count": 3}), "stages[0].campaign", "neither a blueprint"),
    (lambda p: first(p).update(ideas={"slug": "x"}), "stages[0].ideas", "not a list"),
    (lambda p: first(p).pop("expectation"), "stages[0].expectation", "is missing"),
    (lambda p: first(p)["expectation"].pop("when"), "stages[0].expectation.when", "is missing"),
    (lambda p: first(p)["expectation"].pop("sentence"), "stages[0].expectation.sentence", "is missing"),
    (lambda p: first(p)["expectation"].update(when="best >"), "stages[0].expectation.when", "character 7"),
    (lambda p: first(p)["expectation"].update(when=True), "stages[0].expectation.when", "no condition"),
    (lambda p: first(p)["expectation"].update(when="value(lr) > 1"), "stages[0].expectation.when", "slug `lr`"),
    (lambda p: p["stages"][1]["expectation"].update(when="value(lr-high) > 1"), "stages[1].expectation.when", "slug"),
    (lambda p: first(p).pop("outcomes"), "stages[0].outcomes", "is missing"),
    (lambda p: first(p)["outcomes"].pop(), "stages[0].outcomes", "not every result leads somewhere"),
    (lambda p: first(p)["outcomes"].reverse(), "stages[0].outcomes[0].when", "comes last"),
    (lambda p: first(p)["outcomes"].insert(0, first(p)["outcomes"][0]), "stages[0].outcomes[1].when", "asked before"),
    (lambda p: first(p)["outcomes"][0].pop("conclusion"), "stages[0].outcomes[0].conclusion", "is missing"),
    (lambda p: first(p)["outcomes"][0].update(next="refien"), "stages[0].outcomes[0].next", "no stage `refien`"),
    (lambda p: first(p)["outcomes"][0].update(next="screen"), "stages[0].outcomes[0].next", "leads back to `screen`"),
    (lambda p: p["stages"][1]["outcomes"][0].update(next="screen"), "stages[1].outcomes[0].next", "leads back"),
    (lambda p: first(p).update(most_runs=0), "stages[0].most_runs", "whole number"),
    (lambda p: first(p).update(most_runs=True), "stages[0].most_runs", "whole number"),
    (lambda p: first(p).update(expects={}), "stages[0].expects", "unknown key"),
]


@pytest.mark.parametrize(("change", "place", "words"), CASES)
def test_a_plan_that_does_not(change: Callable[[dict[str, Any]], object], place: str, words: str) -> None:
    found = read_plan(changed(change))
    assert found.plan is None
    assert any(str(f.message).startswith(f"{place}: ") and words in f.message for f in found.findings), found.findings


@pytest.mark.parametrize("value", [None, [], "a plan", 3, {}])
def test_no_plan_at_all(value: object) -> None:
    found = read_plan(value)
    assert found.plan is None and len(found.findings) == 1


def test_all_faults_are_told_at_once_with_their_lines_in_order() -> None:
    plan = changed(lambda p: (p.pop("title"), first(p).update(name="A B"), first(p)["outcomes"].pop()))
    lines = {(): 1, ("stages", 0): 5, ("stages", 0, "name"): 5, ("stages", 0, "outcomes"): 12}
    found = read_plan(plan, lines, "p.yaml").findings
    assert [f.line for f in found] == [1, 5, 12]
    assert str(found[1]).startswith("p.yaml:5: error: stages[0].name: ")


def test_a_circle_is_bounded() -> None:
    def circle(plan: dict[str, Any]) -> None:
        plan["stages"][1]["outcomes"].insert(0, {"when": "kept", "conclusion": "Once more.", "next": "screen"})
        first(plan)["most_runs"] = 2

    found = read_plan(changed(circle))
    assert [f.message for f in found.findings] == [
        "stages[0].outcomes[0].next: leads back to `refine`, which may run once"
    ]
    twice = changed(lambda p: (circle(p), p["stages"][1].update(most_runs=2)))
    assert read_plan(twice).plan is not None


def test_a_stage_that_nothing_leads_to_is_a_warning() -> None:
    found = read_plan(changed(lambda p: first(p)["outcomes"][0].update(next="end")))
    assert found.plan is not None
    assert [(f.severity, f.message) for f in found.findings] == [
        (Severity.WARNING, "stages[1]: no outcome leads to the stage `refine`")
    ]
