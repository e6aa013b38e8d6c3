"""`command`: any other agent, by its command line."""

from __future__ import annotations

import pytest

from autoresearch.core.agents.agent import Spoken, TurnFault, TurnRole
from autoresearch.errors import UsageError

USAGE = b'{"autoresearch": {"usd": 0.02, "tokens_in": 900, "tokens_out": 80}}'


def test_its_template_is_filled_word_by_word(make, ask) -> None:
    template = ("ai", "{role}", "--in={prompt_file}", "a {{b}}", "{cwd}", "{last_file}")
    argv = make("command", template=template).argv(ask(TurnRole.FIX))
    assert argv[:5] == ("ai", "fix", "--in=/home/me/turns/7/prompt.md", "a {b}", "/home/me/repo")
    assert argv[5:] == ("/home/me/turns/7/answer/last.txt",)


@pytest.mark.parametrize(
    "template", [(), ("a", "{prompt}"), ("a", "{"), ("a", "{}"), ("a", "{role.x}"), ("a", "{cwd!r}"), ("{cwd}",)]
)
def test_a_template_that_cannot_be_used_is_refused_when_it_is_chosen(template: tuple[str, ...], make) -> None:
    with pytest.raises(UsageError) as raised:
        make("command", template=template)
    assert raised.value.code == "bad_template"


def test_its_answer_is_the_last_file_else_its_output(make, ask) -> None:
    agent, turn = make("command"), ask(TurnRole.PROPOSE)
    answer = agent.read(turn, Spoken(b'noise {"answer": "a", "n": 1}', b"log\n" + USAGE + b"\nmore", 0))
    assert answer.text == 'noise {"answer": "a", "n": 1}' and answer.fault is None
    assert (answer.usage.usd, answer.usage.tokens_in, answer.usage.tokens_out) == (0.02, 900, 80)
    assert agent.read(turn, Spoken(b"noise", b"", 0, 'so: {"answer": "b"}')).text == 'so: {"answer": "b"}'


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (75, TurnFault.QUOTA),
        (77, TurnFault.LOGIN),
        (1, TurnFault.ENDED),
        (-9, TurnFault.ENDED),
        (None, TurnFault.ENDED),
    ],
)
def test_its_exit_code_says_what_went_wrong(code: int | None, fault: TurnFault, make, ask) -> None:
    answer = make("command").read(ask(TurnRole.EDIT), Spoken(b"I did it", b"error: try again in 2 minutes", code))
    assert answer.fault is fault and "try again" in answer.message
