"""What a client may send by mistake or on purpose: each line gets its answer, and the next one is read as ever."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import pytest

from autoresearch.lab.mcp.server import LONGEST_LINE

pytestmark = pytest.mark.system


def test_what_clients_ask_before_and_instead_of_initialize(client: Any) -> None:
    assert client.ask("ping")["result"] == {}
    tools = client.ask("tools/list", {"cursor": "whatever"})["result"]
    assert len(tools["tools"]) == 6 and "nextCursor" not in tools
    for method in ("server/discover", "resources/list", "prompts/list", "logging/setLevel", "no/such", ""):
        assert client.ask(method)["error"]["code"] == -32601
    assert client.greet("2024-11-05")["protocolVersion"] == "2024-11-05"
    assert client.greet("2026-07-28")["protocolVersion"] == "2025-11-25"
    assert client.ask("initialize", {"clientInfo": "odd", "protocolVersion": None})["result"]["serverInfo"]["version"]


def test_a_call_that_is_no_call(client: Any) -> None:
    for params in (None, {}, {"name": "rm"}, {"name": 3}, {"name": "run", "arguments": []}, {"name": ["run"]}):
        assert client.ask("tools/call", params)["error"]["code"] == -32602
    assert client.ask("tools/call", {"name": "status", "arguments": None, "_meta": 3})["result"]["isError"] is False


def test_an_id_is_used_once_at_a_time_and_may_be_a_text(client: Any) -> None:
    client.raw(b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"status"}}\n' * 2)
    said = [client.hear(), client.hear()]
    assert {message["id"] for message in said} == {"a"}
    assert [message["error"]["code"] for message in said if "error" in message] in ([-32600], [])
    assert client.answer(client.request("ping", id="ü"))["result"] == {}


def test_too_many_calls_at_a_time_are_told_so(client: Any) -> None:
    asked = [client.call("wait", run="gone") for _ in range(12)]
    said = [client.answer(id)["result"]["structuredContent"]["error"]["code"] for id in asked]
    assert set(said) == {"not_found", "busy"}


def test_garbage_gets_an_error_and_the_next_line_an_answer(client: Any) -> None:
    """Garbage, binary, a line of 10 MB, deep nesting, odd numbers: the server reads on."""
    chance = random.Random(5)
    huge = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"' + b"x" * 10_000_000 + b'"}}\n'
    nasty = [
        b"garbage\n",
        b"\x00\x01\xff\n",
        huge,
        b"x" * LONGEST_LINE + b"\n",
        b"{" * 100_000 + b"\n",
        b"[[1]]\n",
        b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2\n',
        *(bytes(chance.randrange(256) for _ in range(200)).replace(b"\n", b"") + b"\n" for _ in range(30)),
    ]
    for line in nasty:
        client.raw(line)
        said = client.hear()
        assert said.get("error", {}).get("code") in (-32700, -32600) or said.get("result") == {}, line[:80]
        assert client.ask("ping")["result"] == {}
    assert client.process.poll() is None


def test_half_a_line_is_the_end(client: Any) -> None:
    client.raw(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":{"bluep')
    assert client.leave() == 0
    assert [message["error"]["code"] for message in client.kept] == [-32700]
    assert client.errors() == ""


def test_a_whole_line_without_its_end_is_answered(client: Any) -> None:
    client.raw(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert client.leave() == 0
    assert [message["result"] for message in client.kept] == [{}]


def test_notifications_and_answers_get_no_answer(client: Any) -> None:
    for line in (
        {"method": "notifications/initialized"},
        {"method": "notifications/cancelled", "params": {"requestId": [1]}},
        {"method": "notifications/cancelled"},
        {"method": "tools/call", "params": {"name": "run", "arguments": {"blueprint": "x"}}},
        {"method": "no/such"},
        {"id": 5, "result": {}},
    ):
        client.send(**line)
    client.raw(b"\n\r\n")
    assert client.ask("ping")["result"] == {} and client.kept == []


def test_a_damaged_message_never_kills_it(client: Any) -> None:
    """A real message with bytes changed, dropped and doubled: an answer or an error each, then a clean end."""
    chance = random.Random(11)
    whole = json.dumps(
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "wait", "arguments": {"seconds": 0}}}
    ).encode()
    for _ in range(300):
        line = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(line))
            line[at : at + chance.randrange(2)] = bytes([chance.randrange(32, 256)] * chance.randrange(3))
        client.raw(bytes(line).replace(b"\n", b" ") + b"\n")
    assert client.answer(client.request("ping", id="last"))["result"] == {}
    assert client.leave() == 0 and client.errors() == ""


def test_stdout_is_the_protocol_s_alone(bench: Any) -> None:
    """What anything else in the process prints goes to stderr."""
    noisy = (
        "from autoresearch.lab.mcp import messages; real = messages.read\n"
        "messages.read = lambda line: print('noise', flush=True) or real(line)\n"
        "from autoresearch.cli import main; main(['mcp'])"
    )
    asked = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    done = subprocess.run([sys.executable, "-c", noisy], env=bench.env, input=asked, capture_output=True, timeout=120)
    assert (json.loads(done.stdout)["result"], done.stderr) == ({}, b"noise\n")


def test_a_person_is_told_how_to_register_it(bench: Any) -> None:
    for name in ("claude", "codex", "gemini", "opencode", "cursor", "json"):
        said = bench.ask("mcp", "--print-config", name)
        assert said["line"] or json.loads(said["text"])
        assert bench.here("mcp", "--print-config", name)[1]
    codex = bench.ask("mcp", "--print-config", "codex", WANDB_API_KEY="the-secret")
    assert '"WANDB_API_KEY"' in codex["text"] and "the-secret" not in json.dumps(codex)
    assert bench.ask("mcp", "--print-config", "emacs", check=2)["error"]["code"] == "usage"
