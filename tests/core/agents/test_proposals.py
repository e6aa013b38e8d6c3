"""What a researcher answers: what is wrong is one sentence that says where; what is right becomes a Hypothesis."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autoresearch.core.agents.proposals import (
    MOST,
    KnownIdeas,
    is_inside,
    object_with,
    validate,
    value_of,
)
from autoresearch.core.campaign.hypothesis import Hypothesis

KNOWN = KnownIdeas(
    parents={"wide-clip"},
    fits=lambda overrides, parent: "the recipe has no key typo; did you mean lr?" if "typo" in overrides else "",
    turn="propose-7",
)


def idea(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "slug": "higher-lr",
        "title": "A higher learning rate",
        "rationale": "The reward still rises at the end. A larger step gets there earlier.",
        "expected": "pass@1 +0.02 by step 40",
        "kind": "config",
        "overrides": {"optim.lr": "3e-6"},
        "files": [],
        "risk": "KL may blow up",
        "parent": "best",
    }
    return {**whole, **changes}


def code(**changes: Any) -> dict[str, Any]:
    return idea(kind="code", overrides={}, files=["src/reward.py"], **changes)


def told(*items: Any) -> tuple[str, ...]:
    return validate({"hypotheses": list(items)}, KNOWN).problems


def test_a_valid_answer_becomes_hypotheses() -> None:
    checked = validate({"hypotheses": [idea(), code(slug="shaped", parent="wide-clip")]}, KNOWN)
    assert checked.problems == ()
    first, second = checked.hypotheses
    assert first == Hypothesis(
        "higher-lr",
        "A higher learning rate: The reward still rises at the end.",
        overrides={"optim.lr": 3e-6},
        expected="pass@1 +0.02 by step 40",
        proposer="agent",
        token="propose-7#1",
        kind="config",
        risk="KL may blow up",
        rationale="The reward still rises at the end. A larger step gets there earlier.",
    )
    assert (second.paths, second.parent, second.token) == (
        ("src/reward.py",),
        "wide-clip",
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
    (idea(kind="magic"), "hypotheses[0].kind: is magic; wanted are config, code, prompt, data"),
    (idea(parent="nobody"), "hypotheses[0].parent: is nobody, which is neither best, nor baseline"),
    (idea(extra=1), "hypotheses[0].extra: no such key"),
    ({k: v for k, v in idea().items() if k != "risk"}, "hypotheses[0]: lacks risk"),
    (idea(expected=" "), "hypotheses[0].expected: says nothing"),
    (idea(expected={"metric": "pass@1"}), "hypotheses[0].expected: is an object, not text"),
    (idea(overrides={}), "hypotheses[0].overrides: is empty, and config is nothing but overrides"),
    (idea(overrides=[{"key": "lr"}]), "hypotheses[0].overrides: is a list, not an object"),
    (idea(overrides={"l r": "1"}), "hypotheses[0].overrides.l r: `l r` is no dotted key of a recipe"),
    (idea(overrides={"lr": "NaN"}), "hypotheses[0].overrides.lr: is `NaN`: NaN is no value"),
    (idea(overrides={"lr": "[1, 2"}), "overrides.lr: is `[1, 2`: it begins like JSON"),
    (idea(overrides={"typo": "1"}), "hypotheses[0].overrides: the recipe has no key typo"),
    (idea(overrides={"a": {"b": 1}, "a.b": 2}), "hypotheses[0].overrides.a.b: a.b stands twice"),
    (idea(overrides={"seed": "7"}), "hypotheses[0].overrides.seed: seed is protected: a seed"),
    (idea(overrides={"+data.val": "x"}), "overrides.+data.val: +data.val is protected"),
    (idea(overrides={"data": {"val": "x"}}), "overrides.data: data.val is protected"),
    (idea(overrides={"data": '{"a b\\n": 1}'}), "is no dotted key of a recipe"),
    (idea(files=["src/x.py"]), "hypotheses[0].files: config changes recipe keys only"),
    (idea(kind="code", files=["../x.py"]), "hypotheses[0].files[0]: is `../x.py`"),
    (idea(kind="code", files=["/etc/passwd"]), "hypotheses[0].files[0]: is `/etc/passwd`"),
    (idea(kind="code", files=["./tests/x.py"]), "hypotheses[0].files[0]: `./tests/x.py` is protected: a test"),
    (idea(kind="data", files=[], overrides={}, rationale="more data"), "hypotheses[0].rationale: says too little"),
]


@pytest.mark.parametrize(("item", "problem"), PROBLEMS, ids=[text[:70] for _, text in PROBLEMS])
def test_each_problem_is_a_sentence_that_says_where(item: Any, problem: str) -> None:
    found = told(item)
    assert len(found) == 1 and problem in found[0] and "\n" not in found[0]


def test_near_misses_are_no_problems() -> None:
    good = [
        idea(slug="a1"),
        idea(slug="x" * 40),
        idea(overrides={"+optim.new_key": "cosine", "$MODE": "fast"}),
        idea(overrides={"data.train": "x", "reseed": 7}),
        idea(parent="", kind="prompt", overrides={}, files=["./prompts/a b.txt"]),
        idea(kind="code", overrides={}, files=[], rationale="Clip the reward at two before advantages are made"),
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
    known = KnownIdeas(kinds=("code", "prompt"))
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
