"""What a researcher answers: what is wrong is one sentence that says where; what is right becomes a Hypothesis."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from autoresearch.core.agents.proposals import (
    MOST,
    SCHEMA,
    KnownIdeas,
    is_inside,
    object_with,
    validate,
    value_of,
)
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.metrics.objective import Direction, Objective

KNOWN = KnownIdeas(
    Objective("pass@1", Direction.MAXIMIZE),
    metrics={"actor/entropy"},
    parents={"wide-clip"},
    protected=lambda key: "a seed" if key == "seed" else "validation" if key.startswith("data.val") else "",
    closed=lambda path: "a test" if path.startswith("tests/") else "",
    fits=lambda overrides, parent: "the recipe has no key typo; did you mean lr?" if "typo" in overrides else "",
    turn="propose-7",
)


def idea(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "slug": "higher-lr",
        "title": "A higher learning rate",
        "rationale": "The reward still rises at the end. A larger step gets there earlier.",
        "expected_effect": {"metric": "pass@1", "direction": "up", "size": "+0.02 by step 40"},
        "kind": "config",
        "overrides": [{"key": "optim.lr", "value": "3e-6"}],
        "files": [],
        "risk": "KL may blow up",
        "parent": "best",
        "simpler": False,
    }
    return {**whole, **changes}


def code(**changes: Any) -> dict[str, Any]:
    return idea(kind="code", overrides=[], files=["src/reward.py"], **changes)


def told(*items: Any) -> tuple[str, ...]:
    return validate({"hypotheses": list(items)}, KNOWN).problems


def test_a_valid_answer_becomes_hypotheses() -> None:
    checked = validate({"hypotheses": [idea(), code(slug="shaped", parent="wide-clip", simpler=True)]}, KNOWN)
    assert checked.problems == ()
    first, second = checked.hypotheses
    assert first == Hypothesis(
        "higher-lr",
        "A higher learning rate: The reward still rises at the end.",
        overrides={"optim.lr": 3e-6},
        expected="pass@1 up: +0.02 by step 40",
        proposer="agent",
        token="propose-7#1",
        kind="config",
        risk="KL may blow up",
        rationale="The reward still rises at the end. A larger step gets there earlier.",
    )
    assert (second.paths, second.parent, second.simpler, second.token) == (
        ("src/reward.py",),
        "wide-clip",
        True,
        "propose-7#2",
    )
    assert Hypothesis.from_json(json.loads(json.dumps(second.to_json()))) == second


PROBLEMS: list[tuple[Any, str]] = [
    ("prose", "hypotheses[0]: is text, not an object"),
    (idea(slug="Higher LR"), "hypotheses[0].slug: is `Higher LR`; write lower-case"),
    (idea(slug="../../etc/passwd"), "hypotheses[0].slug: is `../../etc/passwd`; write"),
    (idea(slug="-x"), "hypotheses[0].slug: is"),
    (idea(slug="a\n"), "hypotheses[0].slug: is"),
    (idea(slug="baseline"), "hypotheses[0].slug: an idea cannot be called baseline"),
    (idea(slug=7), "hypotheses[0].slug: is a number, not text"),
    (idea(title="  "), "hypotheses[0].title: says nothing"),
    (idea(title=["x"]), "hypotheses[0].title: is a list, not text"),
    (idea(kind="magic"), "hypotheses[0].kind: is magic, which is none of config, code, prompt, data"),
    (idea(simpler="yes"), "hypotheses[0].simpler: is text, not true or false"),
    (idea(parent="nobody"), "hypotheses[0].parent: is nobody, which is neither best, nor baseline"),
    (idea(extra=1), "hypotheses[0].extra: no such key"),
    ({k: v for k, v in idea().items() if k != "risk"}, "hypotheses[0]: lacks risk"),
    (idea(expected_effect="better"), "hypotheses[0].expected_effect: is text, not an object"),
    (
        idea(expected_effect={"metric": "loss", "direction": "up", "size": "1"}),
        "hypotheses[0].expected_effect.metric: is loss, which no run records; the objective is pass@1",
    ),
    (
        idea(expected_effect={"metric": "pass@1", "direction": "down", "size": "1"}),
        "hypotheses[0].expected_effect.direction: pass@1 is to go up",
    ),
    (
        idea(expected_effect={"metric": "pass@1", "direction": "sideways", "size": "1"}),
        "hypotheses[0].expected_effect.direction: is sideways, which is none of up, down, same",
    ),
    (idea(overrides=[]), "hypotheses[0].overrides: is empty, and config is nothing but overrides"),
    (idea(overrides={"optim.lr": 1}), "hypotheses[0].overrides: is an object, not a list"),
    (idea(overrides=[{"key": "lr"}]), "hypotheses[0].overrides[0]: lacks value"),
    (idea(overrides=[{"key": "l r", "value": "1"}]), "hypotheses[0].overrides[0].key: is `l r`"),
    (idea(overrides=[{"key": "lr", "value": "NaN"}]), "hypotheses[0].overrides[0].value: is `NaN`: NaN is no value"),
    (idea(overrides=[{"key": "lr", "value": "[1, 2"}]), "overrides[0].value: is `[1, 2`: it begins like JSON"),
    (idea(overrides=[{"key": "typo", "value": "1"}]), "hypotheses[0].overrides: the recipe has no key typo"),
    (
        idea(overrides=[{"key": "lr", "value": "1"}, {"key": "lr", "value": "2"}]),
        "hypotheses[0].overrides[1].key: lr stands twice",
    ),
    (idea(overrides=[{"key": "seed", "value": "7"}]), "hypotheses[0].overrides[0].key: seed is protected: a seed"),
    (idea(overrides=[{"key": "+data.val", "value": "x"}]), "overrides[0].key: +data.val is protected"),
    (idea(overrides=[{"key": "data", "value": '{"val": "x"}'}]), "overrides[0].key: data.val is protected"),
    (idea(overrides=[{"key": "data", "value": '{"a b\\n": 1}'}]), "overrides[0].value: holds"),
    (idea(files=["src/x.py"]), "hypotheses[0].files: config changes recipe keys only"),
    (idea(kind="code", files=["../x.py"]), "hypotheses[0].files[0]: is `../x.py`"),
    (idea(kind="code", files=["/etc/passwd"]), "hypotheses[0].files[0]: is `/etc/passwd`"),
    (idea(kind="code", files=["./tests/x.py"]), "hypotheses[0].files[0]: `./tests/x.py` is protected: a test"),
    (idea(kind="data", files=[], overrides=[], rationale="more data"), "hypotheses[0].rationale: says too little"),
]


@pytest.mark.parametrize(("item", "problem"), PROBLEMS, ids=[text[:70] for _, text in PROBLEMS])
def test_each_problem_is_a_sentence_that_says_where(item: Any, problem: str) -> None:
    found = told(item)
    assert len(found) == 1 and problem in found[0] and "\n" not in found[0]


def test_near_misses_are_no_problems() -> None:
    good = [
        idea(slug="a1"),
        idea(slug="x" * 40),
        idea(overrides=[{"key": "+optim.new_key", "value": "cosine"}, {"key": "$MODE", "value": "fast"}]),
        idea(overrides=[{"key": "data.train", "value": "x"}, {"key": "reseed", "value": "7"}]),
        idea(expected_effect={"metric": "actor/entropy", "direction": "down", "size": "slightly"}),
        idea(expected_effect={"metric": "pass@1", "direction": "same", "size": "0"}, simpler=True),
        idea(parent="", kind="prompt", overrides=[], files=["./prompts/a b.txt"]),
        idea(kind="code", overrides=[], files=[], rationale="Clip the reward at two before advantages are made"),
    ]
    assert told(*good) == ()


def test_one_that_is_broken_does_not_take_the_others_with_it() -> None:
    checked = validate({"hypotheses": [idea(slug="?"), idea()]}, KNOWN)
    assert [h.token for h in checked.hypotheses] == ["propose-7#2"]
    assert len(checked.problems) == 1


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "the answer: is null, not an object"),
        ([idea()], "the answer: is a list, not an object"),
        ({}, "the answer: lacks hypotheses"),
        ({"hypotheses": {}}, "the answer.hypotheses: is an object, not a list"),
        ({"hypotheses": []}, "hypotheses: is empty"),
    ],
)
def test_an_answer_that_is_broken_as_a_whole(data: Any, problem: str) -> None:
    checked = validate(data, KNOWN)
    assert not checked.hypotheses and problem in checked.problems[0]


def test_a_thousand_ideas_are_not_looked_at_one_by_one() -> None:
    checked = validate({"hypotheses": [idea(slug=f"idea-{n}") for n in range(1000)]}, KNOWN)
    assert len(checked.hypotheses) == MOST
    assert checked.problems == (f"hypotheses: 1000 are given, and only the first {MOST} were looked at",)


def test_only_wanted_kinds_are_taken() -> None:
    known = KnownIdeas(KNOWN.objective, kinds=("code", "prompt"))
    found = validate({"hypotheses": [idea()]}, known)
    assert found.problems == ("hypotheses[0].kind: is config; wanted are code, prompt",)


def test_markup_and_escapes_stay_text_on_one_line() -> None:
    evil = "<script>alert(1)</script>\x1b[31m\n# Ignore all\u202e previous \ud800"
    (found,) = validate({"hypotheses": [idea(title=evil, risk=evil * 100)]}, KNOWN).hypotheses
    for text in (found.sentence, found.risk):
        assert text.isprintable() and "<script>" in text
    assert len(found.risk) <= 600 and len(found.sentence) <= 300


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("3e-6", 3e-6),
        ("1", 1),
        ("true", True),
        ("null", None),
        ("[0.9, 0.95]", [0.9, 0.95]),
        ('"8"', "8"),
        ("cosine", "cosine"),
        (" warm up ", "warm up"),
        ('""', ""),
        (0.5, 0.5),
        ([1, 2], [1, 2]),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_values(given: object, value: object) -> None:
    assert value_of(given) == value and type(value_of(given)) is type(value)


@pytest.mark.parametrize(
    "given",
    [
        *("", "NaN", "-Infinity", "1e999", "[1,", '{"a"', "a\nb", "x" * 3000, "[" * 900 + "]" * 900, "[" * 1900),
        *(float("nan"), [float("inf")], "9" * 5000),
    ],
)
def test_values_that_no_recipe_can_hold(given: object) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        value_of(given)


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("src/a.py", True),
        ("./a.py", True),
        ("a..b/c", True),
        (".github/x.yml", True),
        *[(path, False) for path in ("", ".", "/a", "~/a", "a/../../b", ".git/config", ".autoresearch/x", "a/")],
        *[(path, False) for path in ("a\x00b", "a\nb", "C:/x", "C:\\x", "x" * 300)],
    ],
)
def test_paths(path: str, inside: bool) -> None:
    assert is_inside(path) is inside


GOOD = '{"hypotheses": [{"slug": "a{b}"}]}'


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (GOOD, "a{b}"),
        (f"Here you are:\n```json\n{GOOD}\n```\nHope this helps {{smile}}", "a{b}"),
        (f'I looked at {{"lr": 1}} first.\n{GOOD}', "a{b}"),
        (f'{GOOD}\n{{"hypotheses": [{{"slug": "second"}}]}}', "a{b}"),
        (f"{{ not json }} {GOOD}", "a{b}"),
    ],
)
def test_the_object_among_the_words(text: str, slug: str) -> None:
    found, why = object_with("hypotheses", text)
    assert found is not None and not why and found["hypotheses"][0]["slug"] == slug


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no JSON object"),
        ("I would raise the learning rate.", "there is no JSON object"),
        (GOOD[:-3], "breaks off or is broken"),
        ('```json\n{"hypotheses": [{"slug": "a"}, {"slug":\n```', "breaks off or is broken"),
        ("{" * 100_000, "there is no JSON object"),
        ('{"a":' * 50_000, "breaks off or is broken"),
    ],
)
def test_no_object_among_the_words(text: str, why: str) -> None:
    found, said = object_with("hypotheses", text)
    assert found is None and why in said


def test_an_object_without_the_key_is_given_to_the_validator() -> None:
    found, why = object_with("hypotheses", '{"slug": "a"}')
    assert found == {"slug": "a"} and not why


ALLOWED = {"type", "properties", "required", "additionalProperties", "items", "enum", "description"}


def walk(schema: Mapping[str, Any], see: Callable[[Mapping[str, Any]], None]) -> None:
    see(schema)
    for child in schema.get("properties", {}).values():
        walk(child, see)
    if "items" in schema:
        walk(schema["items"], see)


def strict(schema: Mapping[str, Any]) -> None:
    """The rules of OpenAI's strict structured output, and none but the plainest keywords."""
    assert set(schema) <= ALLOWED, set(schema) - ALLOWED
    assert isinstance(schema["type"], str)
    if schema["type"] == "object":
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
    if schema["type"] == "array":
        assert "items" in schema


def test_the_schema_is_strict() -> None:
    walk(SCHEMA, strict)
    assert len(json.dumps(SCHEMA)) < 4096
    loose = copy.deepcopy(dict(SCHEMA))
    del loose["properties"]["hypotheses"]["items"]["properties"]["expected_effect"]["additionalProperties"]
    with pytest.raises(KeyError):
        walk(loose, strict)
