"""JSON-RPC 2.0 as the Model Context Protocol uses it on stdio: one message per line, no batches. Pure.

Written by hand because it is four methods: the reference package brings 31 others (70 MB, 0.7 s to import). Format:
modelcontextprotocol.io/specification, versions below; what clients really send: docs/mcp.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoresearch.runner.masking import mask_text, mask_values

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PARSE, REQUEST, METHOD, PARAMS = -32700, -32600, -32601, -32602

Id = str | int | float | None


class RequestRefused(Exception):  # noqa: N818 - it is an answer, not an accident
    """A message whose answer is a JSON-RPC error."""

    def __init__(self, code: int, message: str, id: Id = None) -> None:
        super().__init__(message)
        self.code, self.id = code, id


@dataclass(frozen=True, slots=True)
class Message:
    """A request (it has an id, and expects an answer) or a notification."""

    method: str
    params: Mapping[str, Any]
    id: Id = None
    wants_answer: bool = False


def read(line: bytes) -> Message | None:
    """Parse a line; None for one without effect (an empty line, an answer to us). Raises RequestRefused."""
    if not line.strip():
        return None
    try:
        found = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RequestRefused(PARSE, f"this is no JSON in UTF-8: {str(error)[:200]}") from None
    if isinstance(found, list):
        raise RequestRefused(
            REQUEST, "batches are not supported (the protocol dropped them in 2025-06-18): one per line"
        )
    if not isinstance(found, dict):
        raise RequestRefused(REQUEST, "a message is a JSON object")
    if "method" not in found and ("result" in found or "error" in found):
        return None
    id = found.get("id")
    if ("id" in found and id is None) or not _is_id(id):
        raise RequestRefused(REQUEST, "the id of a request is a text or a number")
    if found.get("jsonrpc") != "2.0" or not isinstance(found.get("method"), str):
        raise RequestRefused(REQUEST, 'a message holds "jsonrpc": "2.0" and a method', id)
    params = found.get("params")
    if not isinstance(params, dict | None):
        raise RequestRefused(PARAMS, "params must be an object", id)
    return Message(found["method"], params or {}, id, wants_answer="id" in found)


def _is_id(value: object) -> bool:
    """Whether it is a text or a number that JSON can hold; 1e999 parses as one that it cannot."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, bool) and isinstance(value, str | int | None)


def answer(id: Id, result: Mapping[str, Any]) -> bytes:
    """The line that answers a request."""
    return _line({"id": id, "result": result})


def refusal(refused: RequestRefused) -> bytes:
    """The error line for a message; its id is null if the message had no readable one."""
    return _line({"id": refused.id, "error": {"code": refused.code, "message": mask_text(str(refused))}})


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """A line that expects no answer."""
    return _line({"method": method, "params": mask_values(params)})


def _line(fields: Mapping[str, Any]) -> bytes:
    """ASCII: it is the same in encodings other than UTF-8."""
    return json.dumps({"jsonrpc": "2.0", **fields}, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def negotiated(version: object) -> str:
    """The protocol version: the client's if we support it, else our newest, which it may then decline."""
    return version if isinstance(version, str) and version in VERSIONS else VERSIONS[-1]


def as_result(payload: Mapping[str, Any], *, failed: bool) -> dict[str, Any]:
    """A tool's result, without secrets: the object, and its text for clients that read only that."""
    payload = mask_values(dict(payload))
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return {"content": [{"type": "text", "text": text}], "structuredContent": payload, "isError": failed}


def fitted(payload: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The payload in at most `most` characters of JSON: its largest entries are halved, and `cut` names them.

    The newest half of a list stays (log lines, rows and events end with them), and the beginning of a text.
    """
    found: dict[str, Any] = dict(payload)
    cut: list[str] = []
    while len(json.dumps(found, ensure_ascii=False, separators=(",", ":"))) > most:
        name = max((key for key in found if key != "cut"), key=lambda key: len(json.dumps(found[key])))
        value = found[name]
        if isinstance(value, list | str) and len(value) > 1:
            found[name] = value[: len(value) // 2] if isinstance(value, str) else value[(len(value) + 1) // 2 :]
        elif isinstance(value, dict) and len(value) > 1:
            found[name] = dict(list(value.items())[: len(value) // 2])
        elif isinstance(value, list) and isinstance(value[0], dict | str | list):
            found[name] = _shorter(value[0])
        else:
            found[name] = None
        cut = [*cut, *([] if name in cut else [name])]
        found["cut"] = cut
    return found


def _shorter(value: Any) -> Any:
    return value[: len(value) // 2] if isinstance(value, str | list) else None
