"""generateContent (Gemini CLI)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.agents.dialect import Body, Dialect, Event, Message, Said, asked_of, texts_of
from tests.agents.script import Asked


def _read(body: Body, path: str) -> Asked:
    tools = {
        each["name"]: each.get("parametersJsonSchema") or each.get("parameters") or {}
        for group in body.get("tools") or ()
        for each in group.get("functionDeclarations", ())
    }
    messages = [_message(c) for c in body.get("contents", ())]
    system = texts_of((body.get("systemInstruction") or {}).get("parts", ()))
    model = path.rpartition("/models/")[2].partition(":")[0]
    named = {"model": model}
    return asked_of("gemini", named, messages, system, tools=tools, stream="streamGenerateContent" in path)


def _message(content: Mapping[str, Any]) -> Message:
    parts = content.get("parts") or ()
    results = [json.dumps(p["functionResponse"].get("response", {})) for p in parts if "functionResponse" in p]
    calls = [p["functionCall"]["name"] for p in parts if "functionCall" in p]
    user = content.get("role", "user") == "user" and not results
    return user, texts_of(parts), calls, "\n".join(results)


def _whole(said: Said, model: str) -> Body:
    call = {"functionCall": {"name": said.tool, "args": said.arguments}}
    return _response([call if said.tool else {"text": said.text}], said, "STOP")


def _response(parts: Sequence[Any], said: Said, finish: str | None) -> dict[str, Any]:
    tokens_in, tokens_out = said.usage
    candidate = {"content": {"role": "model", "parts": [*parts]}, "index": 0}
    usage = {"promptTokenCount": tokens_in, "candidatesTokenCount": tokens_out}
    return {
        "candidates": [candidate | ({"finishReason": finish} if finish else {})],
        "usageMetadata": {**usage, "totalTokenCount": tokens_in + tokens_out},
    }


def _events(said: Said, model: str) -> Iterator[Event]:
    if said.tool:
        yield None, _whole(said, model)
        return
    chunks = list(said.chunks())
    for n, text in enumerate(chunks, 1):
        yield None, _response([{"text": text}], said, "STOP" if n == len(chunks) else None)


def _fault(status: int, message: str) -> Body:
    names = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
    return {"error": {"code": status, "message": message, "status": names.get(status, "INTERNAL")}}


GEMINI = Dialect("gemini", _read, _whole, _events, _fault)
