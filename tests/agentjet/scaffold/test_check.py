"""The check of a scaffold: real programs, a stand-in model or one that is named, one sentence for what is wrong."""

from __future__ import annotations

import http.client
import json
import shlex
import sys
from typing import Any

import pytest

from autoresearch.agentjet import scaffold_check as module
from autoresearch.agentjet.scaffold_check import REPLY, CheckFailed, check_scaffold, stand_in_model
from autoresearch.core.run.hooks import Endpoint
from autoresearch.errors import EnvironmentUnusable, NotFoundError

STAND_IN = Endpoint()


@pytest.mark.system
def test_against_the_stand_in(scaffold: Any) -> None:
    done = check_scaffold(scaffold("ok").place, sys.executable, STAND_IN)
    assert (done.items, done.reward, done.requests, done.endpoint) == (2, 0.0, 1, "a stand-in model")
    assert done.first["id"] == done.item and done.seconds > 0
    assert done.remarks == (
        f"AgentJet is not installed for {sys.executable}: agent_roll.py and agent_roll_one_episode_debug.py "
        "were compiled, not run",
    )


@pytest.mark.system
def test_against_an_endpoint_with_a_key(scaffold: Any, model: Any) -> None:
    done = check_scaffold(scaffold().place, sys.executable, Endpoint(model.url, "sk-secret"), item="row-000001")
    assert (done.item, done.reward, done.requests, done.endpoint) == ("row-000001", 1.0, None, model.url)
    assert model.keys == ["Bearer sk-secret"]


@pytest.mark.system
def test_where_agentjet_is_installed_its_job_is_built(
    scaffold: Any, stub: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", stub["PYTHONPATH"])
    made = scaffold()
    roll = made.place / "agent_roll.py"
    roll.write_text(roll.read_text().replace("type=int, default=32", "type=int, default=2"))
    assert check_scaffold(made.place, sys.executable, STAND_IN).remarks == ()
    assert not (made.place / "results").exists()
    path = made.place / "agent_roll.py"
    path.write_text(path.read_text().replace("num_repeat=", "num_repeats="))
    with pytest.raises(CheckFailed, match=r"agent_roll\.py --prepare-only ended with 1: .*num_repeats"):
        check_scaffold(made.place, sys.executable, STAND_IN)


@pytest.mark.system
@pytest.mark.parametrize(
    ("mode", "changes", "why"),
    [
        ("silent", {}, "the agent never asked the model"),
        ("ok", {"data": "\n"}, "it holds no row"),
        ("ok", {"reward": "command:echo nan"}, "the reward is nan"),
    ],
)
def test_what_does_not_work_is_said_in_a_sentence(
    scaffold: Any, reaper: Any, mode: str, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(CheckFailed) as failed:
        check_scaffold(scaffold(mode, **changes).place, sys.executable, STAND_IN)
    assert why in failed.value.message and "\n" not in failed.value.message and failed.value.exit_code == 3
    assert reaper.find() == []


def test_files_that_are_missing_or_torn(scaffold: Any) -> None:
    made = scaffold()
    path = made.place / "agent_roll.py"
    path.write_text(path.read_text() + "def (")
    with pytest.raises(CheckFailed, match=r"agent_roll\.py: "):
        check_scaffold(made.place, sys.executable, STAND_IN)
    path.unlink()
    with pytest.raises(NotFoundError, match=r"lacks agent_roll\.py"):
        check_scaffold(made.place, sys.executable, STAND_IN)


@pytest.mark.system
def test_a_program_that_says_nothing_or_never_ends(scaffold: Any, reaper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scaffold()
    collector = made.place / "get_training_dataset_item_list.py"
    collector.write_text("import sys\nsys.exit('no such module: pandas')\n")
    with pytest.raises(CheckFailed, match="ended with 1: no such module: pandas"):
        check_scaffold(made.place, sys.executable, STAND_IN)
    collector.write_text("import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)\n")
    monkeypatch.setattr(module, "COLLECT_S", 0.5)
    monkeypatch.setattr(module, "_END_S", 0.5)
    with pytest.raises(CheckFailed, match="ran longer than 0 s and was ended"):
        check_scaffold(made.place, sys.executable, STAND_IN)
    assert reaper.find() == []


@pytest.mark.system
def test_secrets_are_not_shown(scaffold: Any, model: Any) -> None:
    key = "my-own-kind-of-key"
    words = [sys.executable, "-c", "import os, sys; sys.exit(os.environ['OPENAI_API_KEY'])", "{prompt}"]
    made = scaffold(agent_command=shlex.join(words))
    with pytest.raises(CheckFailed) as failed:
        check_scaffold(made.place, sys.executable, Endpoint(model.url, key))
    assert key not in failed.value.message and "***" in failed.value.message


@pytest.mark.system
def test_an_interpreter_that_is_not_there(scaffold: Any) -> None:
    with pytest.raises(EnvironmentUnusable, match="/no/python cannot be started"):
        check_scaffold(scaffold().place, "/no/python", STAND_IN)


def ask(url: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=30)
    try:
        connection.request(method, path, body)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def test_the_stand_in_speaks_what_agents_speak() -> None:
    with stand_in_model() as model:
        status, text = ask(model.base_url, "POST", "/v1/chat/completions", b'{"messages": []}')
        assert status == 200 and json.loads(text)["choices"][0]["message"]["content"] == REPLY
        status, text = ask(model.base_url, "POST", "/v1/chat/completions?x=1", b'{"stream": true}')
        events = [line.removeprefix(b"data: ") for line in text.split(b"\n\n") if line]
        assert events[-1] == b"[DONE]" and json.loads(events[0])["choices"][0]["delta"]["content"] == REPLY
        assert json.loads(events[1])["choices"][0]["finish_reason"] == "stop"
        assert ask(model.base_url, "GET", "/v1/models")[0] == 200
        assert ask(model.base_url, "POST", "/v1/chat/completions", b"{torn")[0] == 400
        assert model.requests == 3 and model.unknown == []
        assert ask(model.base_url, "POST", "/v1/responses", b"{}")[0] == 404
        assert model.unknown == ["POST /v1/responses"]


@pytest.mark.system
def test_an_agent_that_speaks_something_else(scaffold: Any) -> None:
    code = (
        "import http.client, os; c = http.client.HTTPConnection(os.environ['OPENAI_BASE_URL'].split('/')[2]);"
        "c.request('POST', '/v1/messages', b'{}'); print(c.getresponse().status)"
    )
    made = scaffold(agent_command=shlex.join([sys.executable, "-c", code, "{prompt}"]))
    with pytest.raises(CheckFailed, match="the agent asked POST /v1/messages, and the stand-in"):
        check_scaffold(made.place, sys.executable, STAND_IN)
