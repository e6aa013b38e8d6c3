"""A propose turn: what is taken, what is refused and why, and how often a researcher is asked again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import PurePosixPath
from typing import Any

import pytest

from autoresearch.core.agents.agent import Answer, Turn, TurnFault, TurnRole
from autoresearch.core.agents.proposals import KnownIdeas
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.lab.agent_work.propose import EXTRA, Past, ProposeResult, ask_for
from autoresearch.lab.agent_work.question import TurnContext

pytestmark = pytest.mark.system

METRIC = "task_pass_rate@1"


class Scripted:
    """A researcher that says what it was told to say, one answer after the other."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.turns: list[Turn] = []

    def __call__(self, turn: Turn) -> Answer:
        self.turns.append(turn)
        return self.answers[len(self.turns) - 1]


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
    state: Any, *answers: Answer, want: int = 2, resumes: bool = True, **past: Any
) -> tuple[ProposeResult, Scripted]:
    ask = Scripted(*answers)
    names = (PurePosixPath(f"/c/turns/{n:04}-propose") for n in count(7))
    turn_context = TurnContext(ask, PurePosixPath("/tree"), lambda role: next(names), resumes=resumes)
    known = KnownIdeas(Objective(METRIC, Direction.MAXIMIZE), parents={i.slug for i in state.ideas})
    return ask_for("THE PROMPT", want, turn_context, known, Past(state, **past)), ask


def test_what_is_new_is_taken(lived: Any) -> None:
    found, ask = asked(lived.state(), says(idea(), idea("wider", "0.5"), idea("widest", "0.6"), session="s1"))
    assert [h.slug for h in found.hypotheses] == ["wide", "wider"]
    assert [(h.slug, why) for h, why in found.refused] == [("widest", EXTRA)]
    assert found.fault is None
    (turn,) = ask.turns
    assert (turn.role, turn.prompt, turn.session) == (TurnRole.PROPOSE, "THE PROMPT", "")
    assert turn.schema is not None and turn.directory == PurePosixPath("/c/turns/0007-propose")


def test_words_around_the_json_do_no_harm(lived: Any) -> None:
    text = f"Sure!\n```json\n{json.dumps({'hypotheses': [idea()]})}\n```\nAnything else?"
    found, _ = asked(lived.state(), Answer(text=text))
    assert [h.slug for h in found.hypotheses] == ["wide"]


def test_a_name_that_is_taken_gets_a_number(lived: Any) -> None:
    found, _ = asked(lived.state(), says(idea("better"), idea("lucky", "0.7")))
    assert [h.slug for h in found.hypotheses] == ["better", "lucky-2"]


def test_twins_are_refused_with_what_became_of_them(lived: Any) -> None:
    answer = says(idea("again", "0.05"), idea("new", "0.9"), idea("new-too", "9e-1"))
    found, _ = asked(lived.state(), answer)
    assert [h.slug for h in found.hypotheses] == ["new"]
    assert [why for _, why in found.refused] == [
        "it sets the same values as lr-down on the same parent (baseline), which was discard at 0.42",
        "it sets the same values as new on the same parent (baseline), which was proposed in the same answer",
    ]


def test_a_discarded_one_may_be_tried_on_another_parent(lived: Any) -> None:
    found, _ = asked(lived.state(), says(idea("again", "0.05", parent="lr-up")))
    assert [h.slug for h in found.hypotheses] == ["again-2"]  # a skipped one has the name


def test_what_waits_and_what_nobody_wants_is_refused(lived: Any) -> None:
    waiting = Hypothesis("queued", "x", parent="baseline", overrides={"lr": 0.4})
    found, _ = asked(
        lived.state(),
        says(idea(), idea("unwanted", "0.5"), idea("fine", "0.6")),
        waiting=[waiting],
        vetoes={"unwanted"},
    )
    assert [h.slug for h in found.hypotheses] == ["fine"]
    assert [why for _, why in found.refused] == [
        "it sets the same values as queued on the same parent (baseline), which was waiting to be begun",
        "a person vetoed unwanted",
    ]


def test_it_is_asked_again_with_what_is_wrong_in_the_same_session(lived: Any) -> None:
    first = Answer(text="I would raise the learning rate.", session="s1")
    second = says(idea("Wide!"), session="s2")
    found, ask = asked(lived.state(), first, second, says(idea()))
    assert [h.slug for h in found.hypotheses] == ["wide"]
    assert [t.session for t in ask.turns] == ["", "s1", "s2"]
    assert [t.directory.name for t in ask.turns] == ["0007-propose", "0008-propose", "0009-propose"]
    assert "there is no JSON object in the answer" in ask.turns[1].prompt
    assert "hypotheses[0].slug: is `Wide!`" in ask.turns[2].prompt and "THE PROMPT" not in ask.turns[2].prompt
    assert found.hypotheses[0].token == "0009-propose#1"


def test_one_without_a_memory_is_shown_its_answer(lived: Any) -> None:
    found, ask = asked(lived.state(), Answer(text="Prose\x1b[31m. <<<end>>>"), says(idea()), resumes=False)
    assert found.hypotheses
    again = ask.turns[1].prompt
    assert again.startswith("THE PROMPT") and "Prose. <<<end>>>" in again and "there is no JSON object" in again


def test_after_two_more_answers_the_turn_has_failed(lived: Any) -> None:
    found, ask = asked(lived.state(), *[Answer(text='{"hypotheses": [')] * 4)
    assert len(ask.turns) == 3
    assert (found.fault, found.hypotheses) == (TurnFault.ANSWER, ())
    assert found.message.startswith("its JSON breaks off")


def test_where_all_are_duplicates_it_is_told_and_asked_again(lived: Any) -> None:
    found, ask = asked(lived.state(), *[says(idea("again", "0.05"))] * 3)
    assert found.fault is TurnFault.ANSWER and len(found.refused) == 3
    assert "again: refused, because it sets the same values as lr-down" in ask.turns[1].prompt


def test_a_fault_ends_it_at_once(lived: Any) -> None:
    quota = Answer(fault=TurnFault.QUOTA, message="limit of sk-abcdefghij0123456789abcd\nreached")
    found, ask = asked(lived.state(), quota)
    assert len(ask.turns) == 1
    assert (found.fault, found.message) == (TurnFault.QUOTA, "limit of *** reached")


def test_what_was_said_before_a_fault_counts(lived: Any) -> None:
    found, _ = asked(lived.state(), replace(says(idea()), fault=TurnFault.TURNS))
    assert found.fault is None and len(found.hypotheses) == 1


def test_silence_is_asked_again(lived: Any) -> None:
    found, ask = asked(lived.state(), Answer(fault=TurnFault.SILENT), says(idea()))
    assert found.hypotheses and len(ask.turns) == 2


def test_a_thousand_ideas(lived: Any) -> None:
    found, _ = asked(lived.state(), says(*[idea(f"i{n}", str(n + 1)) for n in range(1000)]))
    assert len(found.hypotheses) == 2 and len(found.refused) == 48


def test_secrets_in_its_words_are_masked(lived: Any) -> None:
    found, _ = asked(lived.state(), says(idea(rationale="Use HF_TOKEN=hf_abcdefghijklmnopqrstuvwx for the data")))
    assert "hf_abc" not in found.hypotheses[0].rationale + found.hypotheses[0].sentence


def test_code_under_the_same_title_is_a_twin(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("bonus", "Add a bonus reward for short answers that are correct", files={"reward.py": "x"})
    made.run("bonus", 0.4, "discard")
    again = idea(
        "short-bonus",
        kind="code",
        overrides=[],
        files=["reward.py"],
        title="Add a bonus reward for short answers that are correct",
        rationale="Responses get long.",
    )
    other = {**again, "slug": "penalty", "title": "Remove the bonus reward for short answers that are correct"}
    found, _ = asked(made.state(), says(again, other))
    assert [h.slug for h in found.hypotheses] == ["penalty"]
    why = "it has the title of bonus on the same parent (baseline), which was discard at 0.4"
    assert found.refused[0][1] == why
