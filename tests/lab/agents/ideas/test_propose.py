"""A propose turn: what is taken, what is refused and why, and how often an agent is asked again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import PurePosixPath
from typing import Any

import pytest

from autoresearch.core.agents.agent import Answer, Turn, TurnFault, TurnRole
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.lab.agent_work.propose import EXTRA, ProposeResult, propose
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.question import TurnContext

pytestmark = pytest.mark.system

METRIC = "task_pass_rate@1"
WAITING = [Hypothesis("queued", "x", parent="baseline", overrides={"lr": 0.4})]


def idea(slug: str = "wide", value: str = "0.4", **changes: Any) -> dict[str, Any]:
    whole = {
        "slug": slug,
        "title": f"Set lr to {value}",
        "rationale": "The reward still rises at the end of the run.",
        "expected_effect": {"metric": METRIC, "direction": "up", "size": "+0.02"},
        "kind": "config",
        "overrides": [{"key": "lr", "value": value}],
        "files": [],
        "risk": "none",
        "parent": "baseline",
        "simpler": False,
    }
    return {**whole, **changes}


def says(*items: dict[str, Any], **more: Any) -> Answer:
    return Answer(data={"hypotheses": list(items)}, **more)


def asked(
    matter: ProposeContext, *answers: Answer, resumes: bool = True, **changes: Any
) -> tuple[ProposeResult, list[Turn]]:
    """Ask an agent that gives these answers, one after the other, for two ideas; and the turns that it was asked in."""
    turns: list[Turn] = []

    def ask(turn: Turn) -> Answer:
        turns.append(turn)
        return answers[len(turns) - 1]

    names = (PurePosixPath(f"/c/turns/{n:04}-propose") for n in count(7))
    turn_context = TurnContext(ask, PurePosixPath("/tree"), lambda role: next(names), resumes=resumes)
    return propose(replace(matter, **changes), 2, turn_context), turns


@pytest.fixture
def matter(lived: Any, matter_of: Callable[..., ProposeContext]) -> ProposeContext:
    return matter_of(lived)


def test_what_is_taken_and_what_is_refused(matter: ProposeContext) -> None:
    same = "it sets the same values as {} on the same parent (baseline), which was {}"
    for items, taken, whys in (
        ([idea(), idea("wider", "0.5"), idea("widest", "0.6")], ["wide", "wider"], [EXTRA]),
        ([idea("better"), idea("lucky", "0.7")], ["better", "lucky-2"], []),
        ([idea(), idea(value="0.5")], ["wide", "wide-2"], []),
        ([idea("again", "0.05", parent="lr-up")], ["again-2"], []),  # another parent; a skipped one has the name
        (
            [idea("again", "0.05"), idea("new", "0.9"), idea("new-too", "9e-1")],
            ["new"],
            [same.format("lr-down", "discard at 0.42"), same.format("new", "proposed in the same answer")],
        ),
        ([idea(f"i{n}", str(n + 1)) for n in range(1000)], ["i0", "i1"], [EXTRA] * 48),
    ):
        found, _ = asked(matter, says(*items))
        assert ([h.slug for h in found.hypotheses], [why for _, why in found.refused]) == (taken, whys)
        assert found.fault is None
    found, _ = asked(
        matter,
        says(idea(), idea("unwanted", "0.5"), idea("fine", "0.6")),
        waiting=WAITING,
        vetoes={"unwanted"},
    )
    assert [h.slug for h in found.hypotheses] == ["fine"]
    whys = [same.format("queued", "waiting to be begun"), "a person vetoed unwanted"]
    assert [why for _, why in found.refused] == whys


def test_a_question_and_its_answer_in_words(matter: ProposeContext) -> None:
    text = f"Sure!\n```json\n{json.dumps({'hypotheses': [idea()]})}\n```\nAnything else?"
    found, (turn,) = asked(matter, Answer(text=text))
    assert [h.slug for h in found.hypotheses] == ["wide"] and found.hypotheses[0].token == "0007-propose#1"
    assert (turn.role, turn.session) == (TurnRole.PROPOSE, "") and "Give 2 hypotheses" in turn.prompt
    assert turn.schema is not None and turn.directory == PurePosixPath("/c/turns/0007-propose")
    found, _ = asked(matter, says(idea(rationale="Use HF_TOKEN=hf_abcdefghijklmnopqrstuvwx for the data")))
    assert "hf_abc" not in found.hypotheses[0].rationale + found.hypotheses[0].sentence


def test_it_is_asked_again_with_what_is_wrong(matter: ProposeContext) -> None:
    """In the same session; one without a memory gets everything again, with its answer, in a fence."""
    prose = Answer(text="I would raise it.\x1b[31m <<<end>>>", session="s1")
    found, turns = asked(matter, prose, says(idea("Wide!"), session="s2"), says(idea()))
    assert [h.slug for h in found.hypotheses] == ["wide"]
    assert [t.session for t in turns] == ["", "s1", "s2"]
    assert [t.directory.name for t in turns] == ["0007-propose", "0008-propose", "0009-propose"]
    assert "there is no JSON object in the answer" in turns[1].prompt
    assert "hypotheses[0].slug: is `Wide!`" in turns[2].prompt and turns[0].prompt not in turns[2].prompt
    assert found.hypotheses[0].token == "0009-propose#1"
    found, turns = asked(matter, prose, says(idea()), resumes=False)
    again = turns[1].prompt
    assert found.hypotheses and again.startswith(turns[0].prompt)
    assert "raise it. <<<end>>>" in again and "there is no JSON object" in again
    found, turns = asked(matter, Answer(fault=TurnFault.SILENT), says(idea()))
    assert found.hypotheses and len(turns) == 2


def test_when_a_turn_has_failed(matter: ProposeContext) -> None:
    """After two more answers, and at once where no answer is to be had; what was said before a fault counts."""
    found, turns = asked(matter, *[Answer(text='{"hypotheses": [')] * 4)
    assert (len(turns), found.fault, found.hypotheses) == (3, TurnFault.ANSWER, ())
    assert found.message.startswith("its JSON breaks off")
    found, turns = asked(matter, *[says(idea("again", "0.05"))] * 3)
    assert found.fault is TurnFault.ANSWER and len(found.refused) == 3
    assert "again: refused, because it sets the same values as lr-down" in turns[1].prompt
    quota = Answer(fault=TurnFault.QUOTA, message="limit of sk-abcdefghij0123456789abcd\nreached")
    found, turns = asked(matter, quota)
    assert (len(turns), found.fault, found.message) == (1, TurnFault.QUOTA, "limit of *** reached")
    found, _ = asked(matter, replace(says(idea()), fault=TurnFault.TURNS))
    assert found.fault is None and len(found.hypotheses) == 1


def test_the_recipe_says_which_keys_there_are_and_protection_which_are_closed(matter: ProposeContext) -> None:
    cheat = idea("cheat", overrides=[{"key": "seed", "value": "7"}])
    code = idea("test", kind="code", overrides=[], files=["tests/a.py"])
    typo = idea("typo", overrides=[{"key": "hiden", "value": "128"}])
    good = idea("wider", overrides=[{"key": "hidden", "value": "128"}])
    answers = says(typo, cheat, idea("same", "0.3", parent="best"), code), says(good)
    closed = {"protected": lambda key: "a seed" * (key == "seed"), "closed": lambda path: "a test" * ("tests" in path)}
    found, turns = asked(matter, *answers, **closed)
    assert [h.slug for h in found.hypotheses] == ["wider"]
    again = turns[1].prompt
    assert "hypotheses[0].overrides: hiden is no key of the recipe" in again and "did you mean hidden?" in again
    assert "hypotheses[1].overrides[0].key: seed is protected: a seed" in again
    assert "same: refused, because it changes nothing: best has these values already" in again
    assert "hypotheses[3].files[0]: `tests/a.py` is protected: a test" in again
