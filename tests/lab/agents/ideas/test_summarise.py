"""The summary of a researcher: an opinion in its own frame, with the harness's numbers above it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from autoresearch.core.agents.agent import Answer, Turn, TurnFault, TurnRole
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.question import TurnContext, UnansweredError, UnusableError
from autoresearch.lab.agent_work.summarise import SCHEMA, Opinion, document, read, summarise, write

Build = Callable[..., ProposeContext]
SAID: dict[str, Any] = {
    "headline": "best wins with 0.7033",
    "what_helped": ["best raised task_pass_rate@1 to 0.91"],
    "what_did_not": ["lr-down fell to 0.42"],
    "surprising": [],
    "next_ideas": ["try a decay"],
}
EVIL = (
    "x<script>alert(1)</script>\n# What was measured\n![i](http://e.vil) \x1b[31m HF_TOKEN=hf_abcdefghijklmnopqrstuvwx"
)


class Scripted:
    def __init__(self, *answers: Answer) -> None:
        self.answers, self.turns = list(answers), list[Turn]()

    def __call__(self, turn: Turn) -> Answer:
        self.turns.append(turn)
        return self.answers[len(self.turns) - 1]


def asked(matter: ProposeContext, *answers: Answer) -> tuple[Opinion | UnansweredError, Scripted]:
    ask, numbers = Scripted(*answers), count(1)
    turn_context = TurnContext(ask, PurePosixPath("/tree"), lambda role: PurePosixPath(f"/t/{next(numbers)}-{role}"))
    try:
        return summarise(matter, turn_context), ask
    except UnansweredError as failed:
        return failed, ask


@pytest.mark.system
def test_it_is_asked_for_and_written(lived: Any, matter_of: Build, tmp_path: Path) -> None:
    matter = matter_of(lived)
    opinion, ask = asked(matter, Answer(data=SAID))
    assert isinstance(opinion, Opinion)
    assert (ask.turns[0].role, ask.turns[0].schema) == (TurnRole.SUMMARISE, SCHEMA)
    (place := tmp_path / "campaign").mkdir()
    text = write(matter, opinion, place).read_text(encoding="utf-8")
    assert [path.name for path in place.iterdir()] == ["agent_summary.md"]
    measured, _, says = text.partition("(an opinion, not checked by anybody)")
    assert "Confirmed by fresh runs with other seeds: #9 lr=0.3 (on #2), task_pass_rate@1 0.65, +0.15" in measured
    assert "| 9 | best | lr=0.3 | confirmed | 0.65, +0.15 against the baseline (90 % interval" in measured
    assert "> **best wins with 0.7033**" in says
    assert "> - best raised task_pass_rate@1 to 0.91 **[not in the ledger: 0.91]**" in says
    assert "> - lr-down fell to 0.42\n" in says and "Surprising" not in says


@pytest.mark.system
def test_foreign_words_stay_a_quotation(lived: Any, matter_of: Build) -> None:
    evil = {**SAID, "headline": EVIL, "what_helped": [EVIL] * 40, "next_ideas": ["y" * 9000]}
    opinion = read(evil)
    text = document(matter_of(lived), opinion)
    assert "<script" not in text and "![" not in text and "\x1b" not in text and "hf_abc" not in text
    assert text.count("\n## ") == 2 and len(opinion.lists["what_helped"]) == 12
    after = text.partition("(an opinion")[2].splitlines()[1:]
    assert all(line.startswith(">") or not line or line.startswith("Numbers marked") for line in after)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "it has no `headline`"),
        ({}, "it has no `headline`"),
        ({**SAID, "headline": "  "}, "it has no `headline`"),
        ({**SAID, "surprising": "none"}, "`surprising` is no list of sentences"),
        ({**SAID, "next_ideas": [1]}, "`next_ideas` is no list of sentences"),
    ],
)
def test_what_is_no_summary(data: object, why: str) -> None:
    with pytest.raises(UnusableError, match=why):
        read(data)


@pytest.mark.system
def test_it_is_asked_again_once(lived: Any, matter_of: Build) -> None:
    matter = matter_of(lived)
    opinion, ask = asked(matter, Answer(text="It went well."), Answer(data=SAID))
    assert isinstance(opinion, Opinion) and len(ask.turns) == 2
    assert "there is no JSON object" in ask.turns[1].prompt
    no_list = (TurnFault.ANSWER, "`what_helped` is no list of sentences")
    for answers, told in (
        ((Answer(text="Fine."), Answer(data={"headline": "x"})), no_list),
        ((Answer(fault=TurnFault.LOGIN, message="no key"),), (TurnFault.LOGIN, "no key")),
    ):
        failed, ask = asked(matter, *answers)
        assert isinstance(failed, UnansweredError) and (failed.fault, failed.why) == told
        assert len(ask.turns) == len(answers)


def test_the_schema_is_strict() -> None:
    assert SCHEMA["additionalProperties"] is False and SCHEMA["required"] == list(SCHEMA["properties"])
