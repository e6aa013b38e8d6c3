"""Anthropic Messages (Claude Code)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.agents.dialect import Body, Dialect, Event, Message, Said, asked_of, new_id, texts_of
from tests.agents.script import Asked


def _read(body: Body, path: str) -> Asked:
    tools = {t["name"]: t.get("input_schema", {}) for t in body.get("tools") or () if "name" in t}
    messages = [_message(m) for m in body.get("messages", ())]
    system = texts_of(body.get("system", ""))
    return asked_of("anthropic", body, messages, system, tools=tools, stream=bool(body.get("stream")))


def _message(message: Mapping[str, Any]) -> Message:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    results = [texts_of(p.get("content", "")) or " " for p in parts if p.get("type") == "tool_result"]
    calls = [p["name"] for p in parts if p.get("type") == "tool_use"]
    user = message["role"] == "user" and not results
    return user, texts_of([p for p in parts if p.get("type") == "text"]), calls, "\n".join(results)


def _base(said: Said, model: str) -> dict[str, Any]:
    usage = {"input_tokens": said.usage[0], "output_tokens": said.usage[1]}
    return {
        **{"id": new_id("msg_"), "type": "message", "role": "assistant", "model": model},
        **{"stop_sequence": None, "usage": usage},
    }


def _whole(said: Said, model: str) -> Body:
    if said.tool:
        block = {"type": "tool_use", "id": new_id("toolu_"), "name": said.tool, "input": said.arguments}
    else:
        block = {"type": "text", "text": said.text}
    stop = "tool_use" if said.tool else "end_turn"
    return {**_base(said, model), "content": [block], "stop_reason": stop}


def _events(said: Said, model: str) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}

    base = {**_base(said, model), "content": [], "stop_reason": None}
    yield event("message_start", message=base)
    if said.tool:
        block = {"type": "tool_use", "id": new_id("toolu_"), "name": said.tool, "input": {}}
        yield event("content_block_start", index=0, content_block=block)
        delta = {"type": "input_json_delta", "partial_json": said.arguments_json}
        yield event("content_block_delta", index=0, delta=delta)
    else:
        yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for chunk in said.chunks():
            yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": chunk})
    yield event("content_block_stop", index=0)
    stop = {"stop_reason": "tool_use" if said.tool else "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=stop, usage={"output_tokens": said.usage[1]})
    yield event("message_stop")


def _fault(status: int, message: str) -> Body:
    names = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error", 529: "overloaded_error"}
    kind = names.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


ANTHROPIC = Dialect("anthropic", _read, _whole, _events, _fault)
