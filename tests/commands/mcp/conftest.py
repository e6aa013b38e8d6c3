"""A client that speaks to a real `autoresearch mcp` over real pipes."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.waiting import PATIENCE_S


class Client:
    """One server process. What it says is read by a thread, so that a test can wait for it with patience."""

    def __init__(self, bench: Any, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "autoresearch", "mcp"],
            env={**bench.env, **env},
            cwd=bench.repo,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.kept: list[dict[str, Any]] = []
        self.number = 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(json.loads(line))  # a line that is none ends the thread, and the test then waits in vain
        self.said.put(None)

    def raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, **fields: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n")

    def request(self, method: str, params: Any = None, id: Any = None) -> Any:
        """Ask; gives the id."""
        self.number += 1
        id = self.number if id is None else id
        self.send(id=id, method=method, **({} if params is None else {"params": params}))
        return id

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Ask for a tool call; gives the id."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def hear(self, wanted: Callable[[dict[str, Any]], object] = lambda _: True) -> dict[str, Any]:
        """The next message that is wanted; others are kept."""
        for n, message in enumerate(self.kept):
            if wanted(message):
                return self.kept.pop(n)
        while True:
            message = self.said.get(timeout=PATIENCE_S)
            assert message is not None, f"it ended: {self.errors()}"
            if wanted(message):
                return message
            self.kept.append(message)

    def answer(self, id: Any) -> dict[str, Any]:
        return self.hear(lambda message: message.get("id") == id and "method" not in message)

    def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        return self.answer(self.request(method, params))

    def tool(self, tool: str, /, failed: bool = False, **arguments: Any) -> dict[str, Any]:
        """The object that a tool answers with."""
        said = self.answer(self.call(tool, **arguments))
        assert "result" in said, said
        result = said["result"]
        assert result["isError"] is failed, result["structuredContent"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return dict(result["structuredContent"])

    def look(self, *argv: object, failed: bool = False, **more: str) -> dict[str, Any]:
        return self.tool("look", failed, argv=list(map(str, argv)), **more)

    def act(self, *argv: object, failed: bool = False, **more: str) -> dict[str, Any]:
        return self.tool("act", failed, argv=list(map(str, argv)), **more)

    def greet(self, version: str = "2025-06-18", name: str = "tester") -> dict[str, Any]:
        about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
        said = self.ask("initialize", about)["result"]
        self.send(method="notifications/initialized")
        return dict(said)

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode() if self.process.poll() is not None else ""

    def leave(self) -> int:
        """Close its stdin, and wait for its end; what it still said is in `kept`."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(timeout=PATIENCE_S)
        while (message := self.said.get(timeout=PATIENCE_S)) is not None:
            self.kept.append(message)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                pass


@pytest.fixture
def connect(bench: Any) -> Iterator[Callable[..., Client]]:
    """Start servers; they are ended with the test."""
    made: list[Client] = []

    def start(**env: str) -> Client:
        made.append(Client(bench, **env))
        return made[-1]

    yield start
    for client in made:
        client.close()


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    """A server that has not been greeted yet."""
    return connect()
