"""The client's end of ACP, against an agent that says whatever a test wants (`acp_agent.py`).

What real agents say is in test_real.py.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pytest

from autoresearch.agents.registry import researcher
from autoresearch.core.agents.agent import Answer, Bounds, Chosen, Spoken, Turn, TurnFault, TurnRole
from autoresearch.errors import UsageError
from autoresearch.lab.agent_work.turn_dir import TurnEnvironment
from tests.agents.turns import run_turn
from tests.processes import is_dead
from tests.waiting import until

AGENT = Path(__file__).with_name("acp_agent.py")
Play = Callable[..., Answer]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """`play(TurnRole.EDIT, {...})`: a turn whose agent does what the dict says."""
    repo = tmp_path / "repo"
    repo.mkdir()

    def turn(role: TurnRole, script: dict[str, Any], *, hangs: Path | None = None, **chosen: Any) -> Answer:
        path = tmp_path / "script.json"
        path.write_text(json.dumps(script).replace("REPO", str(repo)))
        template = chosen.pop("template", (sys.executable, str(AGENT), str(path)))
        agent = researcher("acp", Chosen(template=template, **chosen))
        number = len([*tmp_path.glob("turn-*")])
        asked = Turn(role, "do it", PurePath(repo), tmp_path / f"turn-{number}", Bounds(300))
        environment = TurnEnvironment(environ=dict(os.environ), grace_s=2.0)
        stop = threading.Event()
        if hangs is not None:
            threading.Thread(target=lambda: (until_there(hangs), stop.set()), daemon=True).start()
        return run_turn(agent, asked, environment, stop)

    return turn


def until_there(path: Path) -> None:
    """Wait for a file with something in it."""
    until(lambda: path.exists() and path.read_text() != "")


def wish(kind: str, path: str = "", title: str = "a wish") -> dict[str, Any]:
    """An agent's request for permission."""
    options = [{"optionId": each, "name": each, "kind": each} for each in ("allow_always", "reject_once", "allow_once")]
    locations = [{"path": path}] if path else []
    call = {"toolCallId": "1", "title": title, "kind": kind, "locations": locations}
    return {"ask": "session/request_permission", "params": {"options": options, "toolCall": call}}


def chunk(text: str) -> dict[str, Any]:
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}


TOOL = {"update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "look", "kind": "read"}}


@pytest.mark.system
def test_the_last_words_the_tokens_and_the_cost_of_a_turn(play: Play) -> None:
    usage = {"inputTokens": 10, "cachedReadTokens": 5, "outputTokens": 3, "thoughtTokens": 2, "totalTokens": 20}
    cost = {
        "update": {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 1.5, "currency": "USD"}}
    }
    script = {
        "noise": "a line of a log",
        "steps": [chunk("let me "), chunk("see"), TOOL, chunk('{"answer"'), chunk(": 7}"), cost],
        "end": {"stopReason": "end_turn", "usage": usage},
    }
    answer = play(TurnRole.PROPOSE, script)
    assert answer.fault is None and answer.text == '{"answer": 7}'
    assert (answer.usage.tokens_in, answer.usage.tokens_out, answer.usage.usd) == (15, 5, 1.5)


@pytest.mark.system
def test_what_each_role_may_do(play: Play, tmp_path: Path) -> None:
    """What it may not do is refused and told; commands only within a sandbox of ours."""
    (tmp_path / "repo" / "out").symlink_to(tmp_path)
    wishes = {
        **{"read": wish("read", "/etc/hosts"), "edit": wish("edit", "REPO/a.py"), "far": wish("edit", "/etc/hosts")},
        **{"link": wish("edit", "REPO/out/x"), "git": wish("edit", "REPO/.git/config"), "run": wish("execute")},
        **{"web": wish("fetch"), "mode": wish("switch_mode"), "other": wish("other"), "unsaid": wish("")},
    }

    def allowed(role: TurnRole, *, outside: bool, web: bool = False) -> set[str]:
        answer = play(role, {"steps": [*wishes.values(), {"tell": True}]}, outside=outside, web=web)
        told = [each["result"]["outcome"]["optionId"] for each in json.loads(answer.text)]
        assert len(answer.denied) == sum(each == "reject_once" for each in told)
        assert set(told) <= {"allow_once", "reject_once"}
        return {name for name, one in zip(wishes, told, strict=True) if one == "allow_once"}

    assert allowed(TurnRole.PROPOSE, outside=True) == {"read"}
    assert allowed(TurnRole.PROPOSE, outside=True, web=True) == {"read", "web"}
    assert allowed(TurnRole.EDIT, outside=False) == {"read", "edit"}
    assert allowed(TurnRole.EDIT, outside=True) == set(wishes) - {"web", "mode"}, "bubblewrap is around it"


@pytest.mark.system
def test_files_and_terminals_are_its_own_matter(play: Play) -> None:
    asked = json.loads(play(TurnRole.REVIEW, {"steps": [{"ask": "fs/read_text_file"}, {"tell": True}]}).text)
    assert asked[0]["error"]["code"] == -32601


IN_THE_MIDDLE = "exited with 3 in the middle of the turn"
NO_LOGIN = {"code": -32000, "message": "Authentication required"}
BAD_KEY = {"code": -32603, "message": "Internal error", "data": {"details": "401 bad key"}}
LIMIT = {"code": 429, "message": "Rate limit: try again in 2 minutes"}
ENDS: dict[str, tuple[dict[str, Any], TurnFault, str]] = {
    "not logged in": ({"refuse": {"session/new": NO_LOGIN}}, TurnFault.LOGIN, "start it once by itself, and log in"),
    "a wrong key": ({"refuse": {"session/prompt": BAD_KEY}}, TurnFault.LOGIN, "Internal error: 401 bad key"),
    "a usage limit": ({"refuse": {"session/prompt": LIMIT}}, TurnFault.QUOTA, "try again in 2 minutes"),
    "another version": ({"version": 7}, TurnFault.ENDED, "speaks version 7 of the Agent Client Protocol"),
    "dead at once": ({"die": "initialize", "noise": "boom"}, TurnFault.ENDED, f"{IN_THE_MIDDLE}; it said: boom"),
    "dead at work": ({"die": "session/prompt"}, TurnFault.ENDED, IN_THE_MIDDLE),
    "no more requests": ({"end": {"stopReason": "max_turn_requests"}}, TurnFault.TURNS, "it used up its requests"),
    "refused": ({"end": {"stopReason": "refusal"}}, TurnFault.ENDED, "its model refused to go on"),
    "silent": ({}, TurnFault.SILENT, ""),
    "no result": ({"end": [1]}, TurnFault.ENDED, "it stopped early (no reason given)"),
}


@pytest.mark.system
@pytest.mark.parametrize("name", ENDS)
def test_how_a_turn_can_fail(name: str, play: Play) -> None:
    script, fault, words = ENDS[name]
    answer = play(TurnRole.PROPOSE, script)
    assert answer.fault is fault and words in answer.message


@pytest.mark.system
def test_a_program_that_speaks_something_else_or_is_not_there(play: Play) -> None:
    echo = play(TurnRole.PROPOSE, {}, template=("cat",))
    assert echo.fault is TurnFault.ENDED and "no method initialize" in echo.message
    for wait in ("", "read asked; "):  # it ends before it is asked, or when it is
        talker = play(TurnRole.PROPOSE, {}, template=("sh", "-c", f"echo Welcome; {wait}exit 0"))
        assert talker.fault is TurnFault.ENDED and talker.message.endswith("it said: Welcome")
    assert play(TurnRole.EDIT, {}, template=("no-such-agent", "acp")).fault is TurnFault.NOT_INSTALLED


@pytest.mark.system
def test_a_program_that_says_nothing_is_not_waited_for_all_the_turn() -> None:
    quick = "import sys; from autoresearch.agents import acp_client as it; it.HANDSHAKE_S = 0.2; sys.exit(it.main())"
    argv = [sys.executable, "-c", quick, "sleep", "1000"]
    done = subprocess.run(argv, input="do it", capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "does it speak ACP on stdin? It said nothing." in json.loads(done.stdout)["message"]


@pytest.mark.system
def test_an_agent_that_hangs_is_ended_and_costs_what_was_said(play: Play, tmp_path: Path) -> None:
    usage = {"update": {**chunk("so far")["update"], "_meta": {"usage": {"inputTokens": 9, "outputTokens": 1}}}}
    pid = tmp_path / "repo" / "pid"
    heard = {"ask": "fs/read_text_file"}  # when it is answered, what was said before has been taken in
    answer = play(TurnRole.EDIT, {"steps": [usage, heard, {"pid": "REPO/pid"}, {"hang": True}]}, hangs=pid)
    assert answer.fault is TurnFault.STOPPED and answer.usage.tokens == 10
    assert is_dead(int(pid.read_text()))


@pytest.mark.system
def test_a_model_is_chosen_by_its_id_or_its_name(play: Play) -> None:
    models = [{"modelId": "id-1", "name": "one"}, {"modelId": "id-2", "name": "two"}]
    options = [
        {
            "id": "m",
            "category": "model",
            "options": [{"value": each["modelId"], "name": each["name"]} for each in models],
        }
    ]
    for opened in ({"models": {"availableModels": models}}, {"configOptions": options}):
        for model in ("two", "id-2"):
            answer = play(TurnRole.EDIT, {"opened": opened, "steps": [{"tell": "asked"}]}, model=model)
            assert '"id-2"' in answer.text, answer
    lacking = play(TurnRole.EDIT, {}, model="two")
    assert lacking.fault is TurnFault.ENDED and "leave `agent_model` empty" in lacking.message


@pytest.mark.parametrize("command", ["opencode acp", "npx -y opencode-ai acp", "/opt/opencode acp"])
def test_an_agent_that_is_known_has_its_own_homes_and_keys(command: str, ask) -> None:
    agent, known = researcher("acp", Chosen(template=tuple(shlex.split(command)))), researcher("opencode", Chosen())
    assert agent.homes({"HOME": "/h"}) == known.homes({"HOME": "/h"}) and agent.needs() == known.needs()
    turn = ask(TurnRole.PROPOSE)
    assert agent.environment(turn) == known.environment(turn) and agent.traits.money


def test_a_model_that_never_answers_is_an_outage(ask) -> None:
    """Agents try again by themselves, without a word, for longer than the turn may take."""
    opened = b'{"acp": "session"}\n'
    usage = b'{"acp": "usage", "in": 9, "out": 1}\n'
    agent, turn = researcher("qwen", Chosen()), ask(TurnRole.EDIT)
    for out, fault in ((opened, TurnFault.OUTAGE), (opened + usage, TurnFault.TIMEOUT), (b"", TurnFault.TIMEOUT)):
        assert agent.read(turn, Spoken(out, b"", None, "", TurnFault.TIMEOUT)).fault is fault


def test_it_needs_a_command_and_reads_any_output(ask) -> None:
    with pytest.raises(UsageError, match="needs `agent_command`"):
        researcher("acp", Chosen())
    agent = researcher("acp", Chosen(template=("mine",)))
    assert not agent.traits.money and agent.homes({"HOME": "/h"}) == ()
    noise = b'{"acp": 3}\n{"acp": "usage", "in": "x"}\n{"acp": "cost", "usd": -1}\n{"acp": "text", "text": []}\n\xff{'
    assert agent.read(ask(TurnRole.EDIT), Spoken(noise, b"", 0)).fault is TurnFault.SILENT
