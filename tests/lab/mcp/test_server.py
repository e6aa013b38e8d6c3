"""The server in this process: what a client may send, answers that fit; real children: a silent command."""

from __future__ import annotations

import io
import json
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from autoresearch.lab import mcp_server
from autoresearch.lab.mcp_server import McpServer


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children find the package, wherever the tests were started."""
    monkeypatch.setenv("PYTHONPATH", str(Path(mcp_server.__file__).parents[2]))


def said(tool: str, /, **arguments: Any) -> list[dict[str, Any]]:
    """All that the server writes about one call."""
    lines: list[bytes] = []
    answered = threading.Event()

    def write(line: bytes) -> None:
        lines.append(line)
        if b'"id":1' in line:
            answered.set()

    reader, writer = os.pipe()
    params = {"name": tool, "arguments": arguments}
    with open(writer, "wb") as client, open(reader, "rb") as stream:
        thread = threading.Thread(target=McpServer(write, "/").serve, args=(stream,))
        thread.start()
        client.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode() + b"\n")
        client.flush()
        assert answered.wait(60)
        client.close()
        thread.join(60)
    return [json.loads(line) for line in lines]


@pytest.mark.system
def test_a_command_that_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    (answer,) = said("look", argv=["status"])
    found = answer["result"]["structuredContent"]
    assert answer["result"]["isError"] is True and found["error"]["message"].endswith("exited with 1")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    for word in ("status", "a\0b", "a\udc80"):
        (answer,) = said("act", argv=[word])
        assert "could not be started" in answer["result"]["structuredContent"]["error"]["message"]


def heard(*lines: bytes) -> list[dict[str, Any]]:
    """All that the server says to a client that sends these lines and goes."""
    found: list[bytes] = []
    McpServer(found.append, "/").serve(io.BytesIO(b"".join(lines)))
    return [json.loads(line) for line in found]


def ask(method: str, params: Any = None, **more: Any) -> bytes:
    fields = {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params}), **more}
    return json.dumps(fields).encode() + b"\n"


def test_what_clients_ask_before_and_instead_of_initialize() -> None:
    (said,) = heard(ask("tools/list", {"cursor": "whatever"}))
    assert len(said["result"]["tools"]) == 2 and "nextCursor" not in said["result"]
    for method in ("server/discover", "resources/list", "prompts/list", "logging/setLevel", "no/such", ""):
        assert heard(ask(method))[0]["error"]["code"] == -32601
    for version, negotiated in (("2024-11-05", "2024-11-05"), ("2026-07-28", "2025-11-25"), (None, "2025-11-25")):
        (said,) = heard(ask("initialize", {"clientInfo": "odd", "protocolVersion": version}))
        assert said["result"]["protocolVersion"] == negotiated and said["result"]["serverInfo"]["version"]
    for params in (None, {}, {"name": "rm"}, {"name": 3}, {"name": "act", "arguments": []}, {"name": ["act"]}):
        assert heard(ask("tools/call", params))[0]["error"]["code"] == -32602


PING = ask("ping")
SILENT = (
    {"method": "notifications/initialized"},
    {"method": "notifications/cancelled", "params": {"requestId": [1]}},
    {"method": "notifications/cancelled"},
    {"method": "tools/call", "params": {"name": "act", "arguments": {"argv": ["run", "x"]}}},
    {"method": "no/such"},
    {"id": 5, "result": {}},
)


def test_whatever_is_sent_gets_its_answer_and_the_next_line_is_read_as_ever() -> None:
    """Garbage, binary, a line of 10 MB, deep nesting; nothing for notifications; half a line is an error."""
    chance = random.Random(5)
    nasty = [
        *(b"garbage\n", b"\x00\x01\xff\n", b"{" * 100_000 + b"\n", b"[[1]]\n", b"x" * 10_000_000 + b"\n"),
        b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2\n',
        *(bytes(chance.randrange(256) for _ in range(200)).replace(b"\n", b"") + b"\n" for _ in range(30)),
    ]
    for line in nasty:
        said, pong = heard(line, PING)
        assert said["error"]["code"] in (-32700, -32600) and pong["result"] == {}, line[:80]
    quiet = [json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n" for fields in SILENT]
    assert heard(*quiet, b"\n\r\n", PING) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    assert heard(PING.strip()) == heard(PING)
    assert [one["error"]["code"] for one in heard(ask("tools/call")[:40])] == [-32700]
    for _ in range(300):  # a real message with bytes changed, dropped and doubled
        line = bytearray(ask("tools/list"))
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(line))
            line[at : at + chance.randrange(2)] = bytes([chance.randrange(32, 256)] * chance.randrange(3))
        assert heard(bytes(line).replace(b"\n", b" ") + b"\n", PING)[-1]["result"] == {}


@pytest.mark.system
def test_an_id_is_used_once_at_a_time_and_too_many_calls_are_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program := tmp_path / "python").write_text("#!/bin/sh\nexec sleep 1000\n")  # until the client has gone
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    wait = {"name": "look", "arguments": {"argv": ["wait", "gone"]}}
    said = heard(*[ask("tools/call", wait, id="a")] * 2)
    assert {message["id"] for message in said} == {"a"}
    assert -32600 in [message["error"]["code"] for message in said if "error" in message]
    said = heard(*(ask("tools/call", wait, id=n) for n in range(12)))
    codes = [message["result"]["structuredContent"]["error"]["code"] for message in said if "result" in message]
    assert codes.count("busy") == 4


# ------------------------------------------------------------------ answers


def test_a_line_is_one_line_of_ascii() -> None:
    said = mcp_server.answer("ü", {"text": "a\nb\u2028\x1b[31mü"})
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
    fitted = mcp_server.fitted(payload, 10_000)
    assert size(fitted) <= 10_000 and fitted["run"] == "r"
    assert fitted["cut"] and set(fitted["cut"]) <= set(payload)
    assert "cut" not in payload


def test_the_newest_lines_stay_and_what_fits_is_left_alone() -> None:
    fitted = mcp_server.fitted({"lines": [f"line {n}" for n in range(5000)]}, 1000)
    assert fitted["lines"][-1] == "line 4999" and len(fitted["lines"]) > 20
    assert mcp_server.fitted({"lines": ["a"]}, 1000) == {"lines": ["a"]}
