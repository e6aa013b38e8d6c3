"""The server in this process: what a client may send, and real children: progress, patience, a silent command."""

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

from autoresearch.lab.mcp import server as calls
from autoresearch.lab.mcp.server import McpServer


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children find the package, wherever the tests were started."""
    monkeypatch.setenv("PYTHONPATH", str(Path(calls.__file__).parents[3]))


def said(tool: str, /, meta: Any = None, **arguments: Any) -> list[dict[str, Any]]:
    """All that the server writes about one call."""
    lines: list[bytes] = []
    answered = threading.Event()

    def write(line: bytes) -> None:
        lines.append(line)
        if b'"id":1' in line:
            answered.set()

    reader, writer = os.pipe()
    params = {"name": tool, "arguments": arguments, "_meta": meta}
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
def test_progress_is_told_to_who_asked_and_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "TICK_S", 0.02)
    *progress, answer = said("look", {"progressToken": 0}, argv=["wait", "gone", "--for", "33s"])
    assert progress and {message["method"] for message in progress} == {"notifications/progress"}
    numbers = [message["params"]["progress"] for message in progress]
    assert numbers == sorted(numbers)
    assert all(message["params"]["progressToken"] == 0 for message in progress)
    assert progress[0]["params"]["total"] == 33 and "id" not in progress[0]
    assert answer["result"]["structuredContent"]["error"]["code"] == "not_found"
    for meta in (None, {"progressToken": [1]}):
        (answer,) = said("look", meta, argv=["wait", "gone"])
        assert answer["result"]["isError"] is True


@pytest.mark.system
@pytest.mark.parametrize(("name", "hint"), [("look", ""), ("act", "it was left to go on; look what became of it")])
def test_a_command_that_never_ends_is_given_up(name: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "TICK_S", 0.02)
    monkeypatch.setattr(calls, "BEYOND_S", -1000.0)
    (answer,) = said(name, argv=["run", "gone.md"] if name == "act" else ["wait", "gone"])
    error = answer["result"]["structuredContent"]["error"]
    assert (error["code"], error["hint"]) == ("no_answer", hint)


@pytest.mark.system
def test_a_command_that_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    (answer,) = said("look", argv=["status"])
    found = answer["result"]["structuredContent"]
    assert answer["result"]["isError"] is True and found["error"]["message"].endswith("exited with 1")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    (answer,) = said("look", argv=["status"])
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
        *(b"garbage\n", b"\x00\x01\xff\n", b"{" * 100_000 + b"\n", b"[[1]]\n", b"x" * calls.LONGEST_LINE + b"\n"),
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"' + b"x" * 10_000_000 + b'"}}\n',
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
def test_an_id_is_used_once_at_a_time_and_too_many_calls_are_told_so() -> None:
    wait = {"name": "look", "arguments": {"argv": ["wait", "gone"]}}
    said = heard(*[ask("tools/call", wait, id="a")] * 2)
    assert {message["id"] for message in said} == {"a"}
    assert -32600 in [message["error"]["code"] for message in said if "error" in message]
    said = heard(*(ask("tools/call", wait, id=n) for n in range(12)))
    codes = [message["result"]["structuredContent"]["error"]["code"] for message in said if "result" in message]
    assert codes.count("busy") == 4


def test_an_endless_line_is_read_over_and_not_held() -> None:
    class Endless(io.RawIOBase):
        """A gigabyte without a line's end, a line, and the end; it remembers the most that was asked for at once."""

        left, most = 1 << 30, 0

        def readline(self, size: int = -1) -> bytes:  # type: ignore[override]
            self.most = max(self.most, size)
            if self.left > 0:
                self.left -= size
                return b"x" * (size if self.left > 0 else 10) + (b"" if self.left > 0 else b"\n")
            if self.left == 0:
                return b""
            self.left = 0
            return b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'

    lines: list[bytes] = []
    stream: Any = Endless()
    McpServer(lines.append, "/").serve(stream)
    assert [("error" in json.loads(line), json.loads(line)["id"]) for line in lines] == [(True, None), (False, 1)]
    assert stream.most < 1 << 21
