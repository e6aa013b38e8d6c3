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
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.question import EXTRA, ProposeResult, TurnContext, propose

pytestmark = pytest.mark.system

METRIC = "task_pass_rate@1"
WAITING = [Hypothesis("queued", "x", parent="baseline", overrides={"lr": 0.4})]


def idea(slug: str = "wide", value: str = "0.4", **changes: Any) -> dict[str, Any]:
    whole = {
        "slug": slug,
        "title": f"Set lr to {value}",
        "rationale": "The reward still rises at the end of the run.",
        "expected": f"{METRIC} up: +0.02",
        "kind": "config",
        "overrides": {"lr": value},
        "files": [],
        "risk": "none",
        "parent": "baseline",
    }
    return {**whole, **changes}


def says(*items: dict[str, Any], **more: Any) -> Answer:
    return Answer(json.dumps({"hypotheses": list(items)}), **more)


def asked(matter: ProposeContext, *answers: Answer, **changes: Any) -> tuple[ProposeResult, list[Turn]]:
    """Ask an agent that gives these answers, one after the other, for two ideas; and the turns that it was asked in."""
    turns: list[Turn] = []

    def ask(turn: Turn) -> Answer:
        turns.append(turn)
        return answers[len(turns) - 1]

    names = (PurePosixPath(f"/c/turns/{n:04}-propose") for n in count(7))
    turn_context = TurnContext(ask, PurePosixPath("/tree"), lambda role: next(names))
    return propose(replace(matter, **changes), 2, turn_context), turns


@pytest.fixture
def matter(lived: Any, matter_of: Callable[..., ProposeContext]) -> ProposeContext:
    return matter_of(lived)


def test_what_is_taken_and_what_is_refused(matter: ProposeContext) -> None:
    for items, taken, whys in (
        ([idea(), idea("wider", "0.5"), idea("widest", "0.6")], ["wide", "wider"], [EXTRA]),
        ([idea("better"), idea("lucky", "0.7")], ["better", "lucky-2"], []),
        ([idea(), idea(value="0.5")], ["wide", "wide-2"], []),
        ([idea("again", "0.05", parent="lr-up")], ["again-2"], []),  # another parent; a skipped one has the name
        ([idea(f"i{n}", str(n + 1)) for n in range(1000)], ["i0", "i1"], [EXTRA] * 48),
    ):
        found, _ = asked(matter, says(*items))
        assert ([h.slug for h in found.hypotheses], [why for _, why in found.refused]) == (taken, whys)
        assert found.fault is None
    answer = says(idea("unwanted", "0.5"), idea("fine", "0.6"))
    found, _ = asked(matter, answer, waiting=WAITING, unwanted={"unwanted"})
    assert [h.slug for h in found.hypotheses] == ["fine"]
    assert [why for _, why in found.refused] == ["a person skipped it"]


def test_a_question_and_its_answer_in_words(matter: ProposeContext) -> None:
    text = f"Sure!\n```json\n{json.dumps({'hypotheses': [idea()]})}\n```\nAnything else?"
    found, (turn,) = asked(matter, Answer(text=text))
    assert [h.slug for h in found.hypotheses] == ["wide"] and found.hypotheses[0].token == "0007-propose#1"
    assert turn.role is TurnRole.PROPOSE and "Give 2 hypotheses" in turn.prompt
    assert turn.directory == PurePosixPath("/c/turns/0007-propose")
    found, _ = asked(matter, says(idea(rationale="Use HF_TOKEN=hf_abcdefghijklmnopqrstuvwx for the data")))
    assert "hf_abc" not in found.hypotheses[0].rationale + found.hypotheses[0].sentence


def test_it_is_asked_again_with_what_is_wrong(matter: ProposeContext) -> None:
    """It gets everything again, with its answer, in a fence."""
    prose = Answer(text="I would raise it.\x1b[31m <<<end>>>")
    found, turns = asked(matter, prose, says(idea("Wide!")), says(idea()))
    assert [h.slug for h in found.hypotheses] == ["wide"]
    assert [t.directory.name for t in turns] == ["0007-propose", "0008-propose", "0009-propose"]
    assert "there is no JSON object in the answer" in turns[1].prompt
    assert "hypotheses[0].slug: is `Wide!`" in turns[2].prompt and "raise it." not in turns[2].prompt
    assert found.hypotheses[0].token == "0009-propose#1"
    assert all(turn.prompt.startswith(turns[0].prompt) for turn in turns) and "raise it. <<<end>>>" in turns[1].prompt
    found, turns = asked(matter, Answer(fault=TurnFault.SILENT), says(idea()))
    assert found.hypotheses and len(turns) == 2


def test_when_a_turn_has_failed(matter: ProposeContext) -> None:
    """After two more answers, and at once where no answer is to be had; what was said before a fault counts."""
    found, turns = asked(matter, *[Answer(text='{"hypotheses": [')] * 4)
    assert (len(turns), found.fault, found.hypotheses) == (3, TurnFault.ANSWER, ())
    assert found.message.startswith("its JSON breaks off")
    found, turns = asked(matter, *[says(idea("again", "0.05"))] * 3, unwanted={"again"})
    assert found.fault is TurnFault.ANSWER and len(found.refused) == 3
    assert "again: refused, because a person skipped it" in turns[1].prompt
    quota = Answer(fault=TurnFault.QUOTA, message="limit of sk-abcdefghij0123456789abcd\nreached")
    found, turns = asked(matter, quota)
    assert (len(turns), found.fault, found.message) == (1, TurnFault.QUOTA, "limit of *** reached")
    found, _ = asked(matter, replace(says(idea()), fault=TurnFault.TURNS))
    assert found.fault is None and len(found.hypotheses) == 1


def test_the_recipe_says_which_keys_there_are_and_protection_which_are_closed(matter: ProposeContext) -> None:
    cheat = idea("cheat", overrides={"seed": "7"})
    code = idea("test", kind="code", overrides={}, files=["tests/a.py"])
    typo = idea("typo", overrides={"hiden": "128"})
    good = idea("wider", overrides={"hidden": "128"})
    answers = says(typo, cheat, code), says(good)
    found, turns = asked(matter, *answers)
    assert [h.slug for h in found.hypotheses] == ["wider"]
    again = turns[1].prompt
    assert "hypotheses[0].overrides: hiden is no key of the recipe" in again and "did you mean hidden?" in again
    assert "hypotheses[1].overrides.seed: seed is protected: a seed" in again
    assert "hypotheses[2].files[0]: `tests/a.py` is protected: a test" in again
