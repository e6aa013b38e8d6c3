"""The scripted model by itself: four dialects, its steps and faults, what it counts, and its end."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.agents.conftest import Ask, Reply
    from tests.agents.model_server import ModelServer
    from tests.agents.script import Asked, Flow

ROOT = Path(__file__).parents[2]
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
STREAM = "/v1beta/models/m:streamGenerateContent"


def anthropic(text: str, results: int = 0, **more: Any) -> tuple[str, dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    for n in range(results):
        call = {"type": "tool_use", "id": str(n), "name": "Bash", "input": {}}
        messages.append({"role": "assistant", "content": [call]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": str(n), "content": "x"}]})
    tools = [{"name": "Bash", "input_schema": SCHEMA}]
    return "/v1/messages", {"model": "m", "messages": messages, "tools": tools, **more}


def responses(text: str, results: int = 0, **more: Any) -> tuple[str, dict[str, Any]]:
    words = {"type": "input_text", "text": text}
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": [words]}]
    for n in range(results):
        items.append({"type": "function_call", "call_id": str(n), "name": "exec_command", "arguments": "{}"})
        items.append({"type": "function_call_output", "call_id": str(n), "output": "x"})
    tool = {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {"type": "string"}}}}
    return "/v1/responses", {"model": "m", "input": items, "tools": [tool], **more}


def chat(text: str, results: int = 0, **more: Any) -> tuple[str, dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "s"}, {"role": "user", "content": text}]
    for n in range(results):
        call = {"id": str(n), "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": str(n), "content": "x"})
    tools = [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
    return "/v1/chat/completions", {"model": "m", "messages": messages, "tools": tools, **more}


def gemini(text: str, results: int = 0, *, stream: bool = False) -> tuple[str, dict[str, Any]]:
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": text}]}]
    for _ in range(results):
        contents.append({"role": "model", "parts": [{"functionCall": {"name": "run_shell_command", "args": {}}}]})
        result = {"functionResponse": {"name": "run_shell_command", "response": {"output": "x"}}}
        contents.append({"role": "user", "parts": [result]})
    tools = [{"functionDeclarations": [{"name": "run_shell_command", "parameters": SCHEMA}]}]
    path = f"{STREAM}?alt=sse" if stream else "/v1beta/models/m:generateContent"
    return path, {"contents": contents, "tools": tools}


def said(path: str, reply: Reply) -> tuple[str, Any]:
    """(tool, arguments) or ("", text) of an answer in any dialect, streamed or whole."""
    if "text/event-stream" in reply.headers["content-type"]:
        return _streamed(path, reply.events)
    data = reply.json
    if path == "/v1/messages":
        block = data["content"][0]
        return (block["name"], block["input"]) if block["type"] == "tool_use" else ("", block["text"])
    if path == "/v1/responses":
        return _item(data["output"][0])
    if path == "/v1/chat/completions":
        message = data["choices"][0]["message"]
        calls = message.get("tool_calls")
        return _function(calls[0]) if calls else ("", message["content"])
    part = data["candidates"][0]["content"]["parts"][0]
    call = part.get("functionCall")
    return (call["name"], call["args"]) if call else ("", part["text"])


def _function(call: dict[str, Any]) -> tuple[str, Any]:
    return call["function"]["name"], json.loads(call["function"]["arguments"])


def _item(item: dict[str, Any]) -> tuple[str, Any]:
    if item["type"] == "function_call":
        return item["name"], json.loads(item["arguments"])
    return "", item["content"][0]["text"]


def _streamed(path: str, events: list[Any]) -> tuple[str, Any]:
    if path == "/v1/messages":
        assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
        block = next(e["content_block"] for e in events if e["type"] == "content_block_start")
        deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
        if block["type"] == "text":
            return "", "".join(delta["text"] for delta in deltas)
        return block["name"], json.loads("".join(delta["partial_json"] for delta in deltas))
    if path == "/v1/responses":
        assert [events[0]["type"], events[-1]["type"]] == ["response.created", "response.completed"]
        tool, told = _item(next(e["item"] for e in events if e["type"] == "response.output_item.done"))
        pieces = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
        assert pieces == ("" if tool else told)
        return tool, told
    if path == "/v1/chat/completions":
        assert events[-1] == "[DONE]"
        deltas = [e["choices"][0]["delta"] for e in events[:-1] if e["choices"]]
        calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
        return _function(calls[0]) if calls else ("", "".join(delta.get("content") or "" for delta in deltas))
    parts = [part for e in events for part in e["candidates"][0]["content"]["parts"]]
    if "functionCall" in parts[0]:
        return parts[0]["functionCall"]["name"], parts[0]["functionCall"]["args"]
    return "", "".join(part["text"] for part in parts)


DIALECTS: dict[str, tuple[Callable[..., tuple[str, dict[str, Any]]], str, str]] = {
    "anthropic": (anthropic, "Bash", "command"),
    "responses": (responses, "exec_command", "cmd"),
    "chat": (chat, "bash", "command"),
    "gemini": (gemini, "run_shell_command", "command"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_script_speaks_every_dialect(dialect: str, stream: bool, model_server: ModelServer, ask: Ask) -> None:
    make, tool, argument = DIALECTS[dialect]
    model_server.on("count them", {"shell": "ls"}, {"json": {"n": 3}}, {"text": "three"})
    path, body = make("please count them", 0, stream=stream)
    name, arguments = said(path.partition("?")[0], ask(model_server.port, path, body))
    assert (name, arguments[argument]) == (tool, "ls")
    for results, wanted in ((1, '{"n": 3}'), (2, "three"), (3, "done")):
        path, body = make("please count them", results, stream=stream)
        assert said(path.partition("?")[0], ask(model_server.port, path, body)) == ("", wanted)
    assert [(r.dialect, r.tools, r.calls) for r in model_server.asked] == [(dialect, 1, n) for n in range(4)]


def test_a_generator_may_make_the_steps_one_by_one(model_server: ModelServer, ask: Ask) -> None:
    def look(asked: Asked) -> Flow:
        while "x" not in asked.result:
            asked = yield {"shell": "look"}
        yield {"text": f"seen after {asked.steps}"}

    model_server.answer_with(look)
    for results, wanted in ((0, ("Bash", {"command": "look"})), (1, ("", "seen after 1")), (2, ("", "done"))):
        path, body = anthropic("go", results)
        assert said(path, ask(model_server.port, path, body)) == wanted


def test_faults_come_before_the_answer_and_then_are_over(model_server: ModelServer, ask: Ask) -> None:
    limited = {"http": 429, "headers": {"retry-after": "7"}, "message": "slow down", "times": 2}
    model_server.on("x", limited, {"close": True}, {"text": "at last"})
    path, body = anthropic("x")
    for _ in range(2):
        reply = ask(model_server.port, path, body)
        assert (reply.status, reply.headers["retry-after"]) == (429, "7")
        assert reply.json["error"] == {"type": "rate_limit_error", "message": "slow down"}
    with pytest.raises(http.client.RemoteDisconnected):
        ask(model_server.port, path, body)
    assert said(path, ask(model_server.port, path, body)) == ("", "at last")
    assert [r.status for r in model_server.asked] == [429, 429, 0, 200]


def test_what_hangs_is_let_go(model_server: ModelServer, ask: Ask, eventually: Callable[..., None]) -> None:
    model_server.on("wait", {"hang": True})
    ended: list[type[Exception]] = []

    def wait() -> None:
        try:
            ask(model_server.port, *anthropic("wait"))
        except http.client.RemoteDisconnected as error:
            ended.append(type(error))

    thread = threading.Thread(target=wait)
    thread.start()
    eventually(lambda: model_server.asked)
    assert not ended
    model_server.release()
    thread.join()
    assert ended == [http.client.RemoteDisconnected]


@pytest.mark.system
def test_as_a_process_it_prints_its_port_serves_json_rules_and_ends(
    tmp_path: Path, ask: Ask, eventually: Callable[..., None]
) -> None:
    rules, log = tmp_path / "rules.json", tmp_path / "log.jsonl"
    rules.write_text(json.dumps([{"regex": "^h.llo$", "steps": [{"text": "you"}], "times": 1}]))
    argv = [sys.executable, "-m", "tests.agents.model_server", "--script", str(rules), "--log", str(log), "--bodies"]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            path, body = anthropic("hello")
            assert said(path, ask(port, path, body)) == ("", "you")
            assert said(path, ask(port, path, body)) == ("", "ok")
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["rule"] for each in logged] == ["rule 0", ""] and json.loads(logged[0]["body"]) == body
