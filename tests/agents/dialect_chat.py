"""OpenAI Chat Completions (OpenCode, Qwen Code, aider)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from tests.agents.dialect import Body, Dialect, Event, Message, Said, asked_of, new_id, openai_fault, texts_of
from tests.agents.script import Asked


def _read(body: Body, path: str) -> Asked:
    functions = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    tools = {each["name"]: each.get("parameters", {}) for each in functions}
    messages = [_message(m) for m in body.get("messages", ())]
    return asked_of("chat", body, messages, "", tools=tools, stream=bool(body.get("stream")))


def _message(message: Mapping[str, Any]) -> Message:
    text = texts_of(message.get("content"))
    if message["role"] == "tool":
        return False, "", (), text or " "
    calls = [call["function"]["name"] for call in message.get("tool_calls") or ()]
    return message["role"] == "user", text, calls, ""


def _base(model: str) -> dict[str, Any]:
    return {"id": new_id("chatcmpl-"), "created": int(time.time()), "model": model}


def _usage(said: Said) -> dict[str, int]:
    tokens_in, tokens_out = said.usage
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


def _call(said: Said) -> dict[str, Any]:
    call = {"name": said.tool, "arguments": said.arguments_json}
    return {"index": 0, "id": new_id("call_"), "type": "function", "function": call}


def _whole(said: Said, model: str) -> Body:
    message: dict[str, Any] = {"role": "assistant", "content": None if said.tool else said.text}
    if said.tool:
        message["tool_calls"] = [_call(said)]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if said.tool else "stop"}
    return {**_base(model), "object": "chat.completion", "choices": [choice], "usage": _usage(said)}


def _events(said: Said, model: str) -> Iterator[Event]:
    base = {**_base(model), "object": "chat.completion.chunk"}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> Event:
        return None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    if said.tool:
        yield chunk({"role": "assistant", "content": None, "tool_calls": [_call(said)]})
    else:
        for text in said.chunks():
            yield chunk({"role": "assistant", "content": text})
    yield chunk({}, "tool_calls" if said.tool else "stop")
    yield None, {**base, "choices": [], "usage": _usage(said)}
    yield None, "[DONE]"


CHAT = Dialect("chat", _read, _whole, _events, openai_fault)
