"""From a tool's arguments to a command line of the CLI: none that the CLI does not know, none that a value can bend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from autoresearch import cli
from autoresearch.errors import UsageError
from autoresearch.lab.mcp.tools import (
    ARGUMENTS,
    MOST_TEXT,
    MOST_WAIT_S,
    TOOLS,
    WAIT_S,
    Argument,
    CommandTemplate,
    Tool,
)

BUDGET = 1500  # tokens that the tools may cost with every request of a model


def lines() -> Iterator[tuple[Tool, str, CommandTemplate]]:
    for tool in TOOLS.values():
        for name, line in tool.lines.items():
            yield tool, name, line


every_line = pytest.mark.parametrize(
    ("tool", "which", "line"), [pytest.param(*found, id=f"{found[0].name}-{found[1]}") for found in lines()]
)


def asked(tool: Tool, which: str, **given: Any) -> Any:
    return tool.read({**({tool.choose: which} if tool.choose else {}), **given})


def understood(argv: list[str]) -> dict[str, Any]:
    """What the CLI's own parser makes of a command line."""
    import typer

    known: Any = typer.main.get_command(cli._app(argv))
    while hasattr(known, "commands"):
        known, argv = known.commands[argv[0]], argv[1:]
    return dict(known.make_context("autoresearch", list(argv)).params)


def sample(argument: Argument, text: str) -> Any:
    return {"string": text, "integer": 7, "boolean": True, "array": [text, text]}[argument.kind]


def test_there_are_six_and_they_cost_little() -> None:
    assert list(TOOLS) == ["run", "wait", "status", "logs", "campaign", "stop"]
    declared = {"tools": [tool.declared() for tool in TOOLS.values()]}
    assert len(json.dumps(declared, separators=(",", ":")).encode()) / 4 <= BUDGET


@every_line
@pytest.mark.parametrize("text", ["--detach", "a {b}=`id`"])
def test_every_line_is_a_command_of_ours_whatever_is_passed(
    tool: Tool, which: str, line: CommandTemplate, text: str
) -> None:
    """Every argument that it takes arrives as it was, and no value is taken for a flag."""
    given = {name: sample(tool.arguments[name], text) for name in line.takes}
    order = asked(tool, which, **given)
    params = understood(list(order.argv))
    assert params.pop("as_json") is True
    arrived: list[list[Any]] = [
        list(value) if isinstance(value, list | tuple) else [value] for value in params.values()
    ]
    for name, value in given.items():
        wanted = "7s" if name == "seconds" else value
        by_key = f"{name}={wanted}"  # of a campaign file, by --set or for `campaign set`
        several = wanted if isinstance(wanted, list) else [wanted]
        assert any(by_key in one or all(each in one for each in several) for one in arrived), (name, params)
    assert ("detach" in params and params["detach"]) == ("--detach" in line.words)
    assert params.get("yes", False) == ("--yes" in line.words)


@every_line
def test_with_only_what_it_needs(tool: Tool, which: str, line: CommandTemplate) -> None:
    order = asked(tool, which, **{name: sample(tool.arguments[name], "x") for name in line.needs})
    assert understood(list(order.argv))["as_json"] is True
    for missing in line.needs:
        with pytest.raises(UsageError, match=f"needs {missing}"):
            asked(tool, which, **{name: "x" for name in line.needs if name != missing})


def test_every_argument_is_taken_by_some_tool() -> None:
    assert {name for tool in TOOLS.values() for name in tool.arguments} == set(ARGUMENTS)


def test_what_is_declared() -> None:
    for tool in TOOLS.values():
        said = tool.declared()
        schema = said["inputSchema"]
        assert schema["additionalProperties"] is False and schema["type"] == "object"
        assert set(schema.get("required", ())) <= set(schema["properties"])
        assert said["title"] and len(said["description"]) < 300
        hints = said["annotations"]
        assert hints["openWorldHint"] is False
        assert (hints["readOnlyHint"], hints["destructiveHint"]) == (
            tool.name in ("wait", "status", "logs"),
            tool.name == "stop",  # Codex then asks a person, and refuses where there is none
        )
    assert TOOLS["run"].declared()["inputSchema"]["required"] == ["blueprint"]
    assert TOOLS["stop"].declared()["inputSchema"]["required"] == ["reason"]
    assert TOOLS["campaign"].declared()["inputSchema"]["required"] == ["verb"]


def test_a_wait_is_capped() -> None:
    assert list(TOOLS["wait"].read({}).argv) == ["wait", "--json", f"--for={WAIT_S}s"]
    assert TOOLS["wait"].read({"seconds": MOST_WAIT_S}).waits_s == MOST_WAIT_S
    for wrong in (MOST_WAIT_S + 1, 0, -1, 10**30):
        with pytest.raises(UsageError, match=f"seconds must be from 1 to {MOST_WAIT_S}"):
            TOOLS["wait"].read({"seconds": wrong})


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("wait", {"what": "server"}, "wait: what must be one of run, campaign"),
        ("wait", {"what": 3}, "wait: what must be one of"),
        ("wait", {"what": ["run"]}, "wait: what must be one of"),
        ("campaign", {}, "campaign: verb must be one of plan, start"),
        ("campaign", {"verb": "report", "count": 3}, "campaign report takes no 'count'"),
        ("run", {"blueprint": "x", "detach": False}, "run takes no 'detach'"),
        ("run", {"blueprint": "x", "what": "run"}, "run takes no 'what'"),
        ("run", {"blueprint": ["x"]}, "run: blueprint must be a text that is not empty"),
        ("run", {"blueprint": ""}, "run: blueprint must be a text"),
        ("run", {"blueprint": None}, "run: blueprint must be a text"),
        ("run", {"blueprint": "a\0b"}, "holds a character that no command line can hold"),
        ("run", {"blueprint": "a\udc80"}, "holds a character"),
        ("run", {"blueprint": "a" * (MOST_TEXT + 1)}, f"at most {MOST_TEXT} characters"),
        ("run", {"blueprint": "x", "dry_run": "yes"}, "run: dry_run must be true or false"),
        ("logs", {"last": True}, "logs tail: last must be a whole number"),
        ("logs", {"last": 2.5}, "logs tail: last must be a whole number"),
        ("logs", {"what": "metrics", "key": "loss"}, "logs metrics: key must be a list of strings"),
        ("logs", {"what": "metrics", "key": ["loss", 3]}, "logs metrics: key must be a text"),
        ("stop", {"run": "last"}, "stop run needs reason"),
    ],
)
def test_what_cannot_be_understood_is_one_sentence(tool: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        TOOLS[tool].read(given)
    assert said in caught.value.message and "\n" not in caught.value.message and len(caught.value.message) < 300
