"""The server in this process, with real children: progress, patience, and a command that says nothing."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from autoresearch.errors import AutoresearchError
from autoresearch.lab.mcp import server as calls
from autoresearch.lab.mcp.server import McpServer
from autoresearch.lab.mcp.tools import TOOLS


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
@pytest.mark.parametrize("token", ["t", 0])
def test_progress_is_told_to_who_asked(token: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "TICK_S", 0.02)
    *progress, answer = said("wait", {"progressToken": token}, run="gone", seconds=33)
    assert progress and {message["method"] for message in progress} == {"notifications/progress"}
    numbers = [message["params"]["progress"] for message in progress]
    assert numbers == sorted(numbers)
    assert all(message["params"]["progressToken"] == token for message in progress)
    assert progress[0]["params"]["total"] == 33 and "id" not in progress[0]
    assert answer["result"]["structuredContent"]["error"]["code"] == "not_found"


@pytest.mark.system
@pytest.mark.parametrize("meta", [None, {}, {"progressToken": None}, {"progressToken": [1]}])
def test_and_to_nobody_else(meta: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "TICK_S", 0.02)
    (answer,) = said("wait", meta, run="gone")
    assert answer["result"]["isError"] is True


@pytest.mark.system
@pytest.mark.parametrize(("name", "hint"), [("wait", ""), ("run", "it was left to go on; look what became of it")])
def test_a_command_that_never_ends_is_given_up(name: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "TICK_S", 0.02)
    monkeypatch.setattr(calls, "BEYOND_S", -1000.0)
    (answer,) = said(name, **({"blueprint": "gone.md"} if name == "run" else {"run": "gone"}))
    error = answer["result"]["structuredContent"]["error"]
    assert (error["code"], error["hint"]) == ("no_answer", hint)


@pytest.mark.system
def test_a_command_that_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    (answer,) = said("status")
    found = answer["result"]["structuredContent"]
    assert answer["result"]["isError"] is True and found["error"]["message"].endswith("exited with 1")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    (answer,) = said("status")
    assert "could not be started" in answer["result"]["structuredContent"]["error"]["message"]


@pytest.mark.parametrize(
    ("out", "code", "failed", "payload"),
    [
        (b'{"ok": true}\n', 0, False, {"ok": True}),
        (b'{"ok": true, "fit": false}', 6, True, {"exit_code": 6, "ok": True, "fit": False}),
        (b'{"exit_code": 4, "ok": false}', 4, True, {"exit_code": 4, "ok": False}),
        (b"[1]", 0, True, None),
        (b"", 0, True, None),
        (b"\xff", 0, True, None),
        (b"{}{}", 0, True, None),
    ],
)
def test_what_a_command_printed(out: bytes, code: int, failed: bool, payload: Any) -> None:
    found = calls.read(out, b"Traceback ...\nKeyError: 'x'\n", code)
    assert found[1] is failed
    assert found[0] == payload if payload else found[0]["error"]["hint"] == "KeyError: 'x'"


def test_who_drives_it_is_told_to_commands_that_could_not_know() -> None:
    assert calls.surroundings({}, "codex-mcp-client") == {"AI_AGENT": "codex-mcp-client"}
    assert calls.surroundings({"CLAUDECODE": "1"}, "claude-code") == {"CLAUDECODE": "1"}
    assert calls.surroundings({"A": "b"}, "") == {"A": "b"}


def test_a_call_that_was_cancelled_before_it_began_does_not_begin() -> None:
    call = calls.ToolCall(TOOLS["run"].read({"blueprint": "gone.md"}))
    call.stop()
    with pytest.raises(AutoresearchError, match="cancelled"):
        call.run(lambda elapsed: None)


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
