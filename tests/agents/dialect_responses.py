"""OpenAI Responses (Codex)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.agents.dialect import Body, Dialect, Event, Message, Said, asked_of, new_id, openai_fault, texts_of
from tests.agents.script import Asked


def _read(body: Body, path: str) -> Asked:
    tools, namespaces = _tools(body.get("tools") or ())
    given = body.get("input", ())
    items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
    messages = [_item(item) for item in items]
    system, stream = str(body.get("instructions", "")), bool(body.get("stream"))
    return asked_of("responses", body, messages, system, tools=tools, namespaces=namespaces, stream=stream)


def _tools(offered: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Functions, those in a namespace (Codex's MCP servers) included, and the namespace of those."""
    tools: dict[str, Any] = {}
    namespaces: dict[str, str] = {}
    for tool in offered:
        if tool.get("type") == "namespace":
            for inner in tool.get("tools", ()):
                tools[inner["name"]] = inner.get("parameters", {})
                namespaces[inner["name"]] = tool["name"]
        elif "name" in tool:
            tools[tool["name"]] = tool.get("parameters", {})
    return tools, namespaces


def _item(item: Mapping[str, Any]) -> Message:
    kind = str(item.get("type", "message"))
    if kind.endswith("_call_output"):
        output = item.get("output", "")
        return False, "", (), texts_of(output) or " "
    if kind.endswith("_call"):
        return False, "", (str(item.get("name", kind)),), ""
    text = texts_of(item.get("content", ""))
    return kind == "message" and item.get("role") == "user", text, (), ""


def _output(said: Said) -> dict[str, Any]:
    if not said.tool:
        part = {"type": "output_text", "text": said.text, "annotations": []}
        return {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed", "content": [part]}
    call = {"type": "function_call", "id": new_id("fc_"), "call_id": new_id("call_"), "name": said.tool}
    if said.namespace:
        call["namespace"] = said.namespace
    return {**call, "arguments": said.arguments_json, "status": "completed"}


def _whole(said: Said, model: str, output: Mapping[str, Any] | None = None) -> Body:
    tokens_in, tokens_out = said.usage
    usage = {
        **{"input_tokens": tokens_in, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": tokens_out},
        **{"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens_in + tokens_out},
    }
    base = {"id": new_id("resp_"), "object": "response", "created_at": int(time.time()), "model": model}
    return {**base, "status": "completed", "output": [output or _output(said)], "usage": usage}


def _events(said: Said, model: str) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}

    output = _output(said)
    response = _whole(said, model, output)
    yield event("response.created", response={**response, "status": "in_progress", "output": [], "usage": None})
    if not said.tool:
        started = {**output, "status": "in_progress", "content": []}
        yield event("response.output_item.added", output_index=0, item=started)
        for chunk in said.chunks():
            place = {"item_id": output["id"], "output_index": 0, "content_index": 0}
            yield event("response.output_text.delta", **place, delta=chunk)
    yield event("response.output_item.done", output_index=0, item=output)
    yield event("response.completed", response=response)


RESPONSES = Dialect("responses", _read, _whole, _events, openai_fault)
