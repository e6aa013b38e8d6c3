"""Every agent by its name, and what each promises of its command line."""

from __future__ import annotations

import json
from pathlib import PurePath

import pytest

from autoresearch.agents.registry import NAMES, researcher
from autoresearch.core.agents.agent import Chosen, TurnRole
from autoresearch.errors import UsageError

PROMPT = "a word that is nowhere else: xylophone"


@pytest.mark.parametrize("name", NAMES)
def test_what_every_agent_promises(name: str, make, ask) -> None:
    """The prompt is no argument; what was chosen is one; asking differs from editing; homes are below the home."""
    agent = make(name, program="/opt/bin/it", model="m-1", extra=("--more", "x"), keep=("MY_PROXY_KEY",))
    asked = {role: agent.argv(ask(role, PROMPT, schema=True)) for role in TurnRole}
    assert not any("xylophone" in word for argv in asked.values() for word in argv)
    for argv in asked.values():
        assert agent.program() == "/opt/bin/it" and argv[-2:] == ("--more", "x")
        assert argv[0] == "/opt/bin/it" or (name == "acp" and "/opt/bin/it" in argv)
        assert name == "command" or any("m-1" in word for word in argv)
        assert not any(word.endswith(("resume", "--session")) for word in argv)
    assert agent.name == name and "MY_PROXY_KEY" in agent.needs()
    assert any("ab-12" in word for word in agent.argv(ask(TurnRole.EDIT, session="ab-12"))) is agent.traits.resumes
    if name != "command":
        assert asked[TurnRole.EDIT] == asked[TurnRole.FIX]
        assert asked[TurnRole.PROPOSE] == asked[TurnRole.REVIEW]
    environment = {role: agent.environment(ask(role)) for role in (TurnRole.EDIT, TurnRole.PROPOSE)}
    assert (asked[TurnRole.EDIT], environment[TurnRole.EDIT]) != (
        asked[TurnRole.PROPOSE],
        environment[TurnRole.PROPOSE],
    )
    for home in agent.homes({"HOME": "/home/me"}):
        assert home.is_absolute() and PurePath("/home/me") in home.parents
    agent.homes({})


def test_where_each_keeps_its_files(make) -> None:
    environ = {
        **{"HOME": "/home/me", "CODEX_HOME": "/c", "XDG_DATA_HOME": "/d"},
        **{"GEMINI_CLI_HOME": "/g", "CLAUDE_CONFIG_DIR": "/l", "QWEN_HOME": "/q"},
    }
    found = {name: [str(home) for home in make(name).homes(environ)] for name in NAMES}
    assert found.pop("acp") == found["opencode"]
    assert found == {
        **{"claude": ["/l"], "codex": ["/c"], "gemini": ["/g/.gemini"], "qwen": ["/q"], "command": []},
        **{"aider": ["/home/me/.aider"]},
        "opencode": [
            f"{place}/opencode" for place in ("/home/me/.config", "/d", "/home/me/.local/state", "/home/me/.cache")
        ],
    }
    assert [str(home) for home in make("claude").homes({"HOME": "/h"})] == ["/h/.claude", "/h/.claude.json"]


def test_unknown_names_say_which_one_was_meant(make) -> None:
    with pytest.raises(UsageError) as raised:
        make("cluade")
    assert raised.value.hint == "did you mean claude?" and raised.value.code == "unknown_agent"
    with pytest.raises(UsageError) as raised:
        make("zzz")
    assert all(name in raised.value.hint for name in NAMES)


def test_each_is_told_apart_by_its_traits(make) -> None:
    traits = {name: make(name).traits for name in NAMES}
    assert {name for name in NAMES if traits[name].schema} == {"claude", "codex", "qwen"}
    assert {name for name in NAMES if traits[name].resumes} == set(NAMES) - {"aider"}
    assert {name for name in NAMES if traits[name].sandbox} == {"codex"}
    assert {name for name in NAMES if traits[name].leavings} == {"aider"}
    assert all(traits[name].asks_only for name in NAMES)


@pytest.mark.parametrize(
    ("name", "asks", "works"),
    [
        ("claude", ("--permission-mode", "dontAsk", "--tools", "Read,Glob,Grep"), ("--permission-mode", "acceptEdits")),
        ("gemini", ("--approval-mode", "default"), ("--approval-mode", "auto_edit")),
        ("qwen", ("--approval-mode", "default"), ("--approval-mode", "auto-edit")),
        ("aider", ("--chat-mode", "ask"), ()),
    ],
)
def test_its_own_mode_for_asking(name: str, asks: tuple[str, ...], works: tuple[str, ...], make, ask) -> None:
    def holds(argv: tuple[str, ...], words: tuple[str, ...]) -> bool:
        return words in (argv[at : at + len(words)] for at in range(len(argv)))

    asking, working = (make(name).argv(ask(role)) for role in (TurnRole.REVIEW, TurnRole.FIX))
    assert holds(asking, asks) and not holds(working, asks) and holds(working, works)


@pytest.mark.parametrize(
    ("name", "free"),
    [
        ("claude", ("--allowedTools", "Read,Glob,Grep,Edit,Write,Bash")),
        ("codex", ("-c", 'sandbox_mode="danger-full-access"')),
        ("gemini", ("--approval-mode", "yolo")),
        ("qwen", ("--approval-mode", "yolo")),
    ],
)
def test_within_our_sandbox_nothing_waits_for_a_person(name: str, free: tuple[str, str], ask) -> None:
    def argv(role: TurnRole, *, outside: bool) -> str:
        return " ".join(researcher(name, Chosen(outside=outside)).argv(ask(role)))

    words = " ".join(free)
    assert words in argv(TurnRole.EDIT, outside=True) and words not in argv(TurnRole.EDIT, outside=False)
    assert name == "codex" or words not in argv(TurnRole.PROPOSE, outside=True)


def test_opencode_may_touch_nothing_when_it_is_asked(make, ask) -> None:
    def permission(role: TurnRole) -> dict[str, str]:
        return json.loads(make("opencode").environment(ask(role))["OPENCODE_PERMISSION"])

    assert permission(TurnRole.PROPOSE)["edit"] == permission(TurnRole.PROPOSE)["bash"] == "deny"
    assert permission(TurnRole.EDIT)["edit"] == "allow"


def test_bounds_and_schema_where_flags_exist(make, ask) -> None:
    argv = make("claude").argv(ask(TurnRole.PROPOSE, turns=7, usd=0.5, schema=True))
    assert argv[argv.index("--max-turns") + 1] == "7" and argv[argv.index("--max-budget-usd") + 1] == "0.5"
    assert '"answer"' in argv[argv.index("--json-schema") + 1]
    argv = make("codex").argv(ask(TurnRole.PROPOSE, schema=True))
    assert argv[argv.index("--output-schema") + 1] == "/home/me/turns/7/schema.json"
    argv = make("qwen").argv(ask(TurnRole.PROPOSE, schema=True, turns=9))
    assert argv[argv.index("--json-schema") + 1] == "@/home/me/turns/7/schema.json"
    assert argv[argv.index("--max-session-turns") + 1] == "9"


def test_codex_has_its_own_sandbox_only_where_ours_is_not(make, ask) -> None:
    def sandbox(role: TurnRole, outside: bool) -> str:
        argv = make("codex", outside=outside).argv(ask(role))
        return next(word for word in argv if word.startswith("sandbox_mode="))

    assert sandbox(TurnRole.EDIT, False) == 'sandbox_mode="workspace-write"'
    assert sandbox(TurnRole.REVIEW, False) == 'sandbox_mode="read-only"'
    assert sandbox(TurnRole.EDIT, True) == sandbox(TurnRole.REVIEW, True) == 'sandbox_mode="danger-full-access"'


def test_what_each_logs_in_with_is_let_through() -> None:
    chosen = Chosen(keep=("MINE",), template=("x",))
    known = {name: researcher(name, chosen).needs() for name in NAMES}
    assert {name: needs[0] for name, needs in known.items()} == {
        **{"claude": "ANTHROPIC_*", "codex": "OPENAI_*", "opencode": "OPENCODE_*", "gemini": "GEMINI_API_KEY"},
        **{"qwen": "OPENAI_*", "aider": "OPENAI_*", "command": "MINE", "acp": "MINE"},
    }
    assert {needs[-1] for needs in known.values()} == {"MINE"}
