"""From a tool's words to a command line of the CLI."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autoresearch.errors import UsageError
from autoresearch.lab.mcp_server import LOOK, MOST_WAIT_S, WAIT_S, command_line, declared

BUDGET = 450  # tokens that the tools may cost with every request of a model


def test_there_are_two_and_they_cost_little() -> None:
    look, act = declared()
    assert (look["name"], act["name"]) == ("look", "act")
    assert look["annotations"]["readOnlyHint"] is True and look["annotations"]["destructiveHint"] is False
    assert act["annotations"]["readOnlyHint"] is False and act["annotations"]["destructiveHint"] is True
    assert len(json.dumps({"tools": [look, act]}, separators=(",", ":")).encode()) / 4 <= BUDGET


@pytest.mark.parametrize("command", LOOK)
def test_what_looks_is_a_command_of_ours(command: str) -> None:
    import typer

    from autoresearch import cli

    words = command.split()
    known: Any = typer.main.get_command(cli._app(words))
    for word in words:
        known = known.commands[word]
    assert known.make_context("autoresearch", [], resilient_parsing=True) is not None
    assert command_line("look", {"argv": words}).reads


@pytest.mark.parametrize(
    ("tool", "typed", "argv"),
    [
        ("look", "status last", "status --json last"),
        ("look", "autoresearch status --json last", "status --json last"),
        ("look", "campaign status --full", "campaign status --json --full"),
        ("look", "wait last", f"wait --json --for={WAIT_S}s last"),
        ("look", "wait last --for 20s", "wait --json last --for 20s"),
        ("act", "run exp.md", "run --json --detach exp.md"),
        ("act", "run exp.md --dry-run", "run --json exp.md --dry-run"),
        ("act", "run --detach -- python train.py --json", "run --json --detach -- python train.py --json"),
        ("act", "campaign exp.yaml --count 3", "campaign --json --detach --yes exp.yaml --count 3"),
        ("act", "campaign resume last", "campaign resume --json --detach last"),
        ("act", "stop last --reason enough", "stop --json last --reason enough"),
    ],
)
def test_the_command_line(tool: str, typed: str, argv: str) -> None:
    assert " ".join(command_line(tool, {"argv": typed.split()}).argv) == argv


def test_a_wait_is_capped() -> None:
    longest = ["wait", f"--for={MOST_WAIT_S}s"]
    assert command_line("look", {"argv": longest}).argv == ["wait", "--json", longest[1]]
    with pytest.raises(UsageError, match=f"at most {MOST_WAIT_S}s"):
        command_line("look", {"argv": ["wait", "--for", "10m"]})


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("look", {}, "look: argv must be a list of words"),
        ("look", {"argv": "status"}, "look: argv must be a list of words"),
        ("look", {"argv": []}, "look: argv must be a list of words"),
        ("look", {"argv": ["status", 3]}, "look: each word must be a text"),
        ("look", {"argv": ["status"], "run": "x"}, "look takes no 'run'"),
        ("look", {"argv": ["stop", "last"]}, "look does not take `stop`"),
        ("look", {"argv": ["campaign", "set", "count=3"]}, "look does not take `campaign set`"),
        ("look", {"argv": ["ledger", "show", "--out=x.csv"]}, "`ledger show` is not called with --out"),
        ("look", {"argv": ["logs", "-f"]}, "`logs` is not called with -f"),
        ("act", {"argv": ["report", "--serve"]}, "`report` is not called with --serve"),
        ("act", {"argv": ["campaign", "approve", "#7"]}, "a person's word"),
        ("act", {"argv": ["run", "x"], "cwd": 3}, "must be a text"),
    ],
)
def test_what_cannot_be_understood_is_one_sentence(tool: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        command_line(tool, given)
    assert said in caught.value.message and "\n" not in caught.value.message and len(caught.value.message) < 300
