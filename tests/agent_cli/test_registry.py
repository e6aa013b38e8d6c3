"""Every agent by its name, and what each promises of its command line."""

from __future__ import annotations

import json
from pathlib import PurePath

import pytest

from autoresearch.agents.registry import AIDER, NAMES, researcher
from autoresearch.core.agents.agent import Chosen, TurnRole
from autoresearch.errors import UsageError

PROMPT = "a word that is nowhere else: xylophone"


@pytest.mark.parametrize("name", NAMES)
def test_what_every_agent_promises(name: str, make, ask) -> None:
    """The prompt is no argument; what was chosen is one; asking differs from editing; homes are below the home."""
    agent = make(name, program="/opt/bin/it", model="m-1", extra=("--more", "x"), keep=("MY_PROXY_KEY",))
    asked = {role: agent.argv(ask(role, PROMPT)) for role in TurnRole}
    assert not any("xylophone" in word for argv in asked.values() for word in argv)
    for argv in asked.values():
        assert agent.program() == "/opt/bin/it" and argv[-2:] == ("--more", "x")
        assert "/opt/bin/it" in (argv[0], argv[argv.index("--") + 1] if "--" in argv else "")
        assert name == "command" or any("m-1" in word for word in argv)
    assert agent.name == name and "MY_PROXY_KEY" in agent.needs()
    if name != "command":
        assert asked[TurnRole.EDIT] == asked[TurnRole.FIX] != asked[TurnRole.PROPOSE] == asked[TurnRole.REVIEW]
    for home in agent.homes({"HOME": "/home/me"}):
        assert home.is_absolute() and PurePath("/home/me") in home.parents
    agent.homes({})


def test_where_each_keeps_its_files_and_what_it_logs_in_with(make) -> None:
    environ = {
        **{"HOME": "/home/me", "CODEX_HOME": "/c", "XDG_DATA_HOME": "/d"},
        **{"GEMINI_CLI_HOME": "/g", "CLAUDE_CONFIG_DIR": "/l", "QWEN_HOME": "/q"},
    }
    agents = {name: make(name, keep=("MINE",)) for name in NAMES}
    found = {name: [str(home) for home in agent.homes(environ)] for name, agent in agents.items()}
    opencode = [
        "/home/me/.config/opencode",
        "/d/opencode",
        "/home/me/.local/state/opencode",
        "/home/me/.cache/opencode",
    ]
    assert found["acp"] == found["opencode"] == opencode and found["command"] == []
    assert [found[name] for name in ("claude", "codex", "gemini", "qwen")] == [["/l"], ["/c"], ["/g/.gemini"], ["/q"]]
    assert [str(home) for home in make("claude").homes({"HOME": "/h"})] == ["/h/.claude", "/h/.claude.json"]
    assert {name: agent.needs()[0] for name, agent in agents.items()} == {
        **{"claude": "ANTHROPIC_*", "codex": "OPENAI_*", "opencode": "OPENCODE_*", "gemini": "GEMINI_API_KEY"},
        **{"qwen": "OPENAI_*", "goose": "GOOSE_*", "cursor": "CURSOR_API_KEY", "kimi": "KIMI_*"},
        **{"command": "MINE", "acp": "OPENCODE_*"},
    }
    assert {agent.needs()[-1] for agent in agents.values()} == {"MINE"}


def test_unknown_names_say_which_one_was_meant(make) -> None:
    for name, hint in (("cluade", "did you mean claude?"), ("zzz", ", ".join(NAMES)), ("Aider", json.dumps(AIDER))):
        with pytest.raises(UsageError) as raised:
            make(name)
        assert hint in raised.value.hint and raised.value.code == "unknown_agent"


@pytest.mark.parametrize(
    ("name", "asks", "works", "free"),
    [
        (
            *("claude", "--permission-mode dontAsk --tools Read,Glob,Grep", "--permission-mode acceptEdits"),
            "--allowedTools Read,Glob,Grep,Edit,Write,Bash",
        ),
        (
            *("codex", 'sandbox_mode="read-only"', 'sandbox_mode="workspace-write"'),
            'sandbox_mode="danger-full-access"',
        ),
        ("gemini", "--policy", "--writes", "--writes --confined"),
        ("qwen", "--exclude-tools web_fetch", "--writes", "--writes --confined"),
    ],
)
def test_it_may_do_what_its_role_and_the_sandbox_let_it(name: str, asks: str, works: str, free: str, ask) -> None:
    def words(role: TurnRole, *, outside: bool = False) -> str:
        return " ".join(researcher(name, Chosen(outside=outside)).argv(ask(role)))

    assert asks in words(TurnRole.REVIEW) and works not in words(TurnRole.REVIEW) and works in words(TurnRole.FIX)
    assert free in words(TurnRole.EDIT, outside=True) and free not in words(TurnRole.EDIT)
    assert name == "codex" or free not in words(TurnRole.PROPOSE, outside=True)


def test_opencode_may_touch_nothing_when_it_is_asked(make, ask) -> None:
    def permission(role: TurnRole, **chosen: bool) -> dict[str, str]:
        return json.loads(make("opencode", **chosen).environment(ask(role))["OPENCODE_PERMISSION"])

    looking = permission(TurnRole.PROPOSE, web=True)
    assert looking["edit"] == looking["bash"] == "deny" and looking["webfetch"] == "allow"
    working = permission(TurnRole.EDIT, web=True)
    assert working["edit"] == "allow" and working["webfetch"] == working["external_directory"] == "deny"
    assert permission(TurnRole.EDIT, outside=True)["external_directory"] == "allow"


@pytest.mark.parametrize("name", ["gemini", "qwen"])
def test_tools_for_the_web_are_there_only_for_ideas_and_where_they_were_asked_for(name: str, make, ask) -> None:
    for role, web, offered in (
        (TurnRole.PROPOSE, True, True),
        (TurnRole.PROPOSE, False, False),
        (TurnRole.EDIT, True, False),
    ):
        words = make(name, web=web).argv(ask(role))
        assert ("--web" in words) is offered and ({"--policy", "--exclude-tools"} & {*words} == set()) is offered


def test_bounds_where_flags_exist(make, ask) -> None:
    argv = make("claude").argv(ask(TurnRole.PROPOSE, turns=7, usd=0.5))
    assert argv[argv.index("--max-turns") + 1] == "7" and argv[argv.index("--max-budget-usd") + 1] == "0.5"
