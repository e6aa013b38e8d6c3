"""JSON-RPC on a line: what is read, what is refused and how, and answers that fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autoresearch.lab.mcp import messages
from autoresearch.lab.mcp.messages import Message, RequestRefused


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (line(id=1, method="ping"), Message("ping", {}, 1, True)),
        (line(id="a", method="ping", params={"x": 1}), Message("ping", {"x": 1}, "a", True)),
        (line(id=0, method="ping", params=None), Message("ping", {}, 0, True)),
        (line(method="notifications/initialized"), Message("notifications/initialized", {}, None, False)),
        (line(id=1, method="ping").replace(b"\n", b"\r\n"), Message("ping", {}, 1, True)),
        (line(id=7, result={}), None),  # an answer to a question that we never asked
        (line(id=7, error={"code": 1, "message": "x"}), None),
        (b"\n", None),
        (b"  \r\n", None),
    ],
)
def test_what_is_read(text: bytes, read: Message | None) -> None:
    assert messages.read(text) == read


@pytest.mark.parametrize(
    ("text", "code", "id"),
    [
        (b"garbage\n", messages.PARSE, None),
        (b'{"jsonrpc": "2.0", "id": 1, "met', messages.PARSE, None),
        (b"\xff\xfe\x00\x01\n", messages.PARSE, None),
        (b"[" * 200_000 + b"\n", messages.PARSE, None),
        (b'{"jsonrpc": "2.0", "id": ' + b"9" * 10_000 + b"}\n", messages.PARSE, None),
        (b"[]\n", messages.REQUEST, None),
        (b"[" + line(id=1, method="ping").strip() + b"]\n", messages.REQUEST, None),
        (b"3\n", messages.REQUEST, None),
        (b"null\n", messages.REQUEST, None),
        (b"{}\n", messages.REQUEST, None),
        (line(id=1), messages.REQUEST, 1),
        (line(id=1, method=5), messages.REQUEST, 1),
        (line(id=None, method="ping"), messages.REQUEST, None),
        (line(id=True, method="ping"), messages.REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": 1e999, "method": "ping"}', messages.REQUEST, None),
        (line(id=float("nan"), method="ping"), messages.REQUEST, None),
        (line(id={"a": 1}, method="ping"), messages.REQUEST, None),
        (b'{"id": 1, "method": "ping"}\n', messages.REQUEST, 1),
        (line(id=1, method="ping", params=[1]), messages.PARAMS, 1),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, bytes) else None,
)
def test_what_is_refused(text: bytes, code: int, id: Any) -> None:
    with pytest.raises(RequestRefused) as caught:
        messages.read(text)
    assert (caught.value.code, caught.value.id) == (code, id)
    said = json.loads(messages.refusal(caught.value))
    assert said["error"]["code"] == code and said["id"] == id and len(said["error"]["message"]) < 300


def test_versions() -> None:
    for known in messages.VERSIONS:
        assert messages.negotiated(known) == known
    for other in ("2026-07-28", "1", "", None, 3, ["2025-06-18"]):
        assert messages.negotiated(other) == "2025-11-25"


def test_a_line_is_one_line_of_ascii() -> None:
    said = messages.answer("ü", {"text": "a\nb\u2028\x1b[31mü"})
    assert said.isascii() and said.count(b"\n") == 1 and said.endswith(b"\n")
    assert json.loads(said)["result"]["text"] == "a\nb\u2028\x1b[31mü"


def size(payload: Any) -> int:
    return len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")))


@pytest.mark.parametrize(
    "payload",
    [
        {"lines": [f"line {n}" for n in range(5000)], "run": "r"},
        {"brief": "x" * 50_000, "run": "r"},
        {"lines": ["y" * 60_000], "run": "r"},
        {"metrics": {f"key/{n}": n / 3 for n in range(4000)}, "run": "r"},
        {"a": [{"deep": "z" * 30_000}], "b": ["q"] * 9000, "run": "r"},
        {"a": {"only": "z" * 30_000}, "run": "r"},
        {"error": {"message": "m" * 40_000, "hint": ""}, "ok": False, "run": "r"},
    ],
    ids=lambda payload: next(iter(payload)),
)
def test_a_payload_is_made_to_fit(payload: dict[str, Any]) -> None:
    fitted = messages.fitted(payload, 10_000)
    assert size(fitted) <= 10_000 and fitted["run"] == "r"
    assert fitted["cut"] and set(fitted["cut"]) <= set(payload)
    assert "cut" not in payload


def test_the_newest_lines_stay_and_what_fits_is_left_alone() -> None:
    fitted = messages.fitted({"lines": [f"line {n}" for n in range(5000)]}, 1000)
    assert fitted["lines"][-1] == "line 4999" and len(fitted["lines"]) > 20
    assert messages.fitted({"lines": ["a"]}, 1000) == {"lines": ["a"]}


def test_a_result_is_text_and_structure() -> None:
    found = messages.as_result({"run": "ü", "ok": False}, failed=True)
    assert json.loads(found["content"][0]["text"]) == found["structuredContent"] == {"run": "ü", "ok": False}
    assert found["isError"] is True and "ü" in found["content"][0]["text"]
