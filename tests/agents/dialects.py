"""A way in which agents talk to a model: requests read into `Asked`, answers written as it wants them.

An answer is JSON (one dict) or events (name or None, data). Sizes of an answer are claims: what a model would
have counted is not known here, so each answer claims a fourth of its bytes unless its step says otherwise.
Formats: platform.claude.com/docs (Messages), developers.openai.com (Responses, Chat Completions), ai.google.dev
(generateContent), and what the agents named in `tests/real/agents.json` were seen to send.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.agents.script import Asked

Body = Mapping[str, Any]
Event = tuple[str | None, Any]
Usage = tuple[int, int]  # tokens in, tokens out
CHUNK = 4096  # characters of one text delta


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: a tool's call, or text."""

    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    usage: Usage = (10, 5)
    namespace: str = ""

    @property
    def arguments_json(self) -> str:
        return json.dumps(self.arguments)

    def chunks(self) -> Iterator[str]:
        """The text in the pieces that a stream has."""
        for at in range(0, max(len(self.text), 1), CHUNK):
            yield self.text[at : at + CHUNK]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of request is read and answered."""

    name: str
    read: Callable[[Body, str], Asked]
    whole: Callable[[Said, str], Body]
    events: Callable[[Said, str], Iterator[Event]]
    fault: Callable[[int, str], Body]


def new_id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:20]


def texts_of(content: Any) -> str:
    """All text of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or () if isinstance(part, Mapping))


# A message of any dialect: (is a user's own words, text, names of called tools, result of a tool)
Message = tuple[bool, str, Sequence[str], str]


def asked_of(dialect: str, body: Body, messages: Sequence[Message], system: str, **more: Any) -> Asked:
    place = max((n for n, (user, *_) in enumerate(messages) if user), default=-1)
    calls = tuple(name for _, _, names, _ in messages[place + 1 :] for name in names)
    results = [result for *_, result in messages[place + 1 :] if result]
    return Asked(
        dialect=dialect,
        text=messages[place][1] if place >= 0 else "",
        place=place,
        calls=calls,
        result=results[-1] if results else "",
        prose="\n".join([system, *(text for _, text, _, _ in messages)]),
        model=str(body.get("model", "")),
        **more,
    )


def openai_fault(status: int, message: str) -> Body:
    codes = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
    return {"error": {"message": message, "type": "error", "param": None, "code": codes.get(status)}}


# -- Anthropic Messages (Claude Code) ----------------------------------------------------------------------------------


def _anthropic_read(body: Body, path: str) -> Asked:
    tools = {t["name"]: t.get("input_schema", {}) for t in body.get("tools") or () if "name" in t}
    messages = [_anthropic_message(m) for m in body.get("messages", ())]
    system = texts_of(body.get("system", ""))
    return asked_of("anthropic", body, messages, system, tools=tools, stream=bool(body.get("stream")))


def _anthropic_message(message: Mapping[str, Any]) -> Message:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    results = [texts_of(p.get("content", "")) or " " for p in parts if p.get("type") == "tool_result"]
    calls = [p["name"] for p in parts if p.get("type") == "tool_use"]
    user = message["role"] == "user" and not results
    return user, texts_of([p for p in parts if p.get("type") == "text"]), calls, "\n".join(results)


def _anthropic_base(said: Said, model: str) -> dict[str, Any]:
    usage = {"input_tokens": said.usage[0], "output_tokens": said.usage[1]}
    return {
        **{"id": new_id("msg_"), "type": "message", "role": "assistant", "model": model},
        **{"stop_sequence": None, "usage": usage},
    }


def _anthropic_whole(said: Said, model: str) -> Body:
    if said.tool:
        block = {"type": "tool_use", "id": new_id("toolu_"), "name": said.tool, "input": said.arguments}
    else:
        block = {"type": "text", "text": said.text}
    stop = "tool_use" if said.tool else "end_turn"
    return {**_anthropic_base(said, model), "content": [block], "stop_reason": stop}


def _anthropic_events(said: Said, model: str) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}

    base = {**_anthropic_base(said, model), "content": [], "stop_reason": None}
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


def _anthropic_fault(status: int, message: str) -> Body:
    names = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error", 529: "overloaded_error"}
    kind = names.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


ANTHROPIC = Dialect("anthropic", _anthropic_read, _anthropic_whole, _anthropic_events, _anthropic_fault)


# -- OpenAI Chat Completions (OpenCode, Qwen Code, aider) --------------------------------------------------------------


def _chat_read(body: Body, path: str) -> Asked:
    functions = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    tools = {each["name"]: each.get("parameters", {}) for each in functions}
    messages = [_chat_message(m) for m in body.get("messages", ())]
    return asked_of("chat", body, messages, "", tools=tools, stream=bool(body.get("stream")))


def _chat_message(message: Mapping[str, Any]) -> Message:
    text = texts_of(message.get("content"))
    if message["role"] == "tool":
        return False, "", (), text or " "
    calls = [call["function"]["name"] for call in message.get("tool_calls") or ()]
    return message["role"] == "user", text, calls, ""


def _chat_base(model: str) -> dict[str, Any]:
    return {"id": new_id("chatcmpl-"), "created": int(time.time()), "model": model}


def _chat_usage(said: Said) -> dict[str, int]:
    tokens_in, tokens_out = said.usage
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


def _chat_call(said: Said) -> dict[str, Any]:
    call = {"name": said.tool, "arguments": said.arguments_json}
    return {"index": 0, "id": new_id("call_"), "type": "function", "function": call}


def _chat_whole(said: Said, model: str) -> Body:
    message: dict[str, Any] = {"role": "assistant", "content": None if said.tool else said.text}
    if said.tool:
        message["tool_calls"] = [_chat_call(said)]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if said.tool else "stop"}
    return {**_chat_base(model), "object": "chat.completion", "choices": [choice], "usage": _chat_usage(said)}


def _chat_events(said: Said, model: str) -> Iterator[Event]:
    base = {**_chat_base(model), "object": "chat.completion.chunk"}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> Event:
        return None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    if said.tool:
        yield chunk({"role": "assistant", "content": None, "tool_calls": [_chat_call(said)]})
    else:
        for text in said.chunks():
            yield chunk({"role": "assistant", "content": text})
    yield chunk({}, "tool_calls" if said.tool else "stop")
    yield None, {**base, "choices": [], "usage": _chat_usage(said)}
    yield None, "[DONE]"


CHAT = Dialect("chat", _chat_read, _chat_whole, _chat_events, openai_fault)


# -- generateContent (Gemini CLI) --------------------------------------------------------------------------------------


def _gemini_read(body: Body, path: str) -> Asked:
    tools = {
        each["name"]: each.get("parametersJsonSchema") or each.get("parameters") or {}
        for group in body.get("tools") or ()
        for each in group.get("functionDeclarations", ())
    }
    messages = [_gemini_message(c) for c in body.get("contents", ())]
    system = texts_of((body.get("systemInstruction") or {}).get("parts", ()))
    model = path.rpartition("/models/")[2].partition(":")[0]
    named = {"model": model}
    return asked_of("gemini", named, messages, system, tools=tools, stream="streamGenerateContent" in path)


def _gemini_message(content: Mapping[str, Any]) -> Message:
    parts = content.get("parts") or ()
    results = [json.dumps(p["functionResponse"].get("response", {})) for p in parts if "functionResponse" in p]
    calls = [p["functionCall"]["name"] for p in parts if "functionCall" in p]
    user = content.get("role", "user") == "user" and not results
    return user, texts_of(parts), calls, "\n".join(results)


def _gemini_whole(said: Said, model: str) -> Body:
    call = {"functionCall": {"name": said.tool, "args": said.arguments}}
    return _gemini_response([call if said.tool else {"text": said.text}], said, "STOP")


def _gemini_response(parts: Sequence[Any], said: Said, finish: str | None) -> dict[str, Any]:
    tokens_in, tokens_out = said.usage
    candidate = {"content": {"role": "model", "parts": [*parts]}, "index": 0}
    usage = {"promptTokenCount": tokens_in, "candidatesTokenCount": tokens_out}
    return {
        "candidates": [candidate | ({"finishReason": finish} if finish else {})],
        "usageMetadata": {**usage, "totalTokenCount": tokens_in + tokens_out},
    }


def _gemini_events(said: Said, model: str) -> Iterator[Event]:
    if said.tool:
        yield None, _gemini_whole(said, model)
        return
    chunks = list(said.chunks())
    for n, text in enumerate(chunks, 1):
        yield None, _gemini_response([{"text": text}], said, "STOP" if n == len(chunks) else None)


def _gemini_fault(status: int, message: str) -> Body:
    names = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
    return {"error": {"code": status, "message": message, "status": names.get(status, "INTERNAL")}}


GEMINI = Dialect("gemini", _gemini_read, _gemini_whole, _gemini_events, _gemini_fault)


# -- OpenAI Responses (Codex) ------------------------------------------------------------------------------------------


def _responses_read(body: Body, path: str) -> Asked:
    tools, namespaces = _responses_tools(body.get("tools") or ())
    given = body.get("input", ())
    items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
    messages = [_responses_item(item) for item in items]
    system, stream = str(body.get("instructions", "")), bool(body.get("stream"))
    return asked_of("responses", body, messages, system, tools=tools, namespaces=namespaces, stream=stream)


def _responses_tools(offered: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
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


def _responses_item(item: Mapping[str, Any]) -> Message:
    kind = str(item.get("type", "message"))
    if kind.endswith("_call_output"):
        output = item.get("output", "")
        return False, "", (), texts_of(output) or " "
    if kind.endswith("_call"):
        return False, "", (str(item.get("name", kind)),), ""
    text = texts_of(item.get("content", ""))
    return kind == "message" and item.get("role") == "user", text, (), ""


def _responses_output(said: Said) -> dict[str, Any]:
    if not said.tool:
        part = {"type": "output_text", "text": said.text, "annotations": []}
        return {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed", "content": [part]}
    call = {"type": "function_call", "id": new_id("fc_"), "call_id": new_id("call_"), "name": said.tool}
    if said.namespace:
        call["namespace"] = said.namespace
    return {**call, "arguments": said.arguments_json, "status": "completed"}


def _responses_whole(said: Said, model: str, output: Mapping[str, Any] | None = None) -> Body:
    tokens_in, tokens_out = said.usage
    usage = {
        **{"input_tokens": tokens_in, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": tokens_out},
        **{"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens_in + tokens_out},
    }
    base = {"id": new_id("resp_"), "object": "response", "created_at": int(time.time()), "model": model}
    return {**base, "status": "completed", "output": [output or _responses_output(said)], "usage": usage}


def _responses_events(said: Said, model: str) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}

    output = _responses_output(said)
    response = _responses_whole(said, model, output)
    yield event("response.created", response={**response, "status": "in_progress", "output": [], "usage": None})
    if not said.tool:
        started = {**output, "status": "in_progress", "content": []}
        yield event("response.output_item.added", output_index=0, item=started)
        for chunk in said.chunks():
            place = {"item_id": output["id"], "output_index": 0, "content_index": 0}
            yield event("response.output_text.delta", **place, delta=chunk)
    yield event("response.output_item.done", output_index=0, item=output)
    yield event("response.completed", response=response)


RESPONSES = Dialect("responses", _responses_read, _responses_whole, _responses_events, openai_fault)


def dialect_of(path: str) -> Dialect | None:
    """The dialect of a request's path; None is no request to a model."""
    if path.endswith("/messages"):
        return ANTHROPIC
    if path.endswith("/responses"):
        return RESPONSES
    if path.endswith("/chat/completions"):
        return CHAT
    return GEMINI if path.endswith((":generateContent", ":streamGenerateContent")) else None
