"""Every agent by its name, and what each promises of its command line."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from autoresearch.core.researcher import Role
from autoresearch.errors import UsageError
from autoresearch.researchers.registry import NAMES

AGENTS = ("claude", "codex", "command")
PROMPT = "a word that is nowhere else: xylophone"


@pytest.mark.parametrize("name", AGENTS)
def test_a_prompt_is_never_an_argument(name: str, make, ask) -> None:
    for role in Role:
        assert not any("xylophone" in word for word in make(name).argv(ask(role, PROMPT, schema=True)))


@pytest.mark.parametrize("name", AGENTS)
def test_what_was_chosen_is_in_the_command_line(name: str, make, ask) -> None:
    agent = make(name, program="/opt/bin/it", model="m-1", extra=("--more", "x"), keep=("MY_PROXY_KEY",))
    argv = agent.argv(ask(Role.EDIT))
    assert argv[0] == agent.program() == "/opt/bin/it"
    assert argv[-2:] == ("--more", "x")
    assert name == "command" or any("m-1" in word for word in argv)
    assert "MY_PROXY_KEY" in agent.needs()


@pytest.mark.parametrize("name", AGENTS)
def test_a_session_goes_on_where_that_is_promised(name: str, make, ask) -> None:
    agent = make(name)
    assert agent.name == name
    assert any("ab-12" in word for word in agent.argv(ask(Role.EDIT, session="ab-12"))) is agent.traits.resumes
    assert not any(word.endswith(("resume", "--session")) for word in agent.argv(ask(Role.EDIT)))


@pytest.mark.parametrize("name", AGENTS)
def test_asking_and_editing_are_told_apart(name: str, make, ask) -> None:
    argv = {role: make(name).argv(ask(role)) for role in Role}
    if name != "command":
        assert argv[Role.EDIT] == argv[Role.FIX]
        assert argv[Role.PROPOSE] == argv[Role.REVIEW] == argv[Role.SUMMARISE] == argv[Role.PLAN]
    assert argv[Role.EDIT] != argv[Role.PROPOSE]


@pytest.mark.parametrize("name", AGENTS)
def test_its_homes_are_below_the_home_that_it_has(name: str, make) -> None:
    for home in make(name).homes({"HOME": "/home/me"}):
        assert home.is_absolute() and PurePath("/home/me") in home.parents
    make(name).homes({})


def test_unknown_names_say_which_one_was_meant(make) -> None:
    with pytest.raises(UsageError) as raised:
        make("cluade")
    assert raised.value.hint == "did you mean claude?" and raised.value.code == "unknown_agent"
    with pytest.raises(UsageError) as raised:
        make("zzz")
    assert all(name in raised.value.hint for name in NAMES)


def test_bounds_and_schema_where_flags_exist(make, ask) -> None:
    argv = make("claude").argv(ask(Role.PROPOSE, turns=7, usd=0.5, schema=True))
    assert argv[argv.index("--max-turns") + 1] == "7" and argv[argv.index("--max-budget-usd") + 1] == "0.5"
    assert '"answer"' in argv[argv.index("--json-schema") + 1]
    argv = make("codex").argv(ask(Role.PROPOSE, schema=True))
    assert argv[argv.index("--output-schema") + 1] == "/home/me/turns/7/schema.json"


def test_codex_has_its_own_sandbox_only_where_ours_is_not(make, ask) -> None:
    def sandbox(role: Role, outside: bool) -> str:
        argv = make("codex", outside=outside).argv(ask(role))
        return next(word for word in argv if word.startswith("sandbox_mode="))

    assert sandbox(Role.EDIT, False) == 'sandbox_mode="workspace-write"'
    assert sandbox(Role.REVIEW, False) == 'sandbox_mode="read-only"'
    assert sandbox(Role.EDIT, True) == sandbox(Role.REVIEW, True) == 'sandbox_mode="danger-full-access"'
