"""A model of our own on the loopback interface, which answers real coding agents by a script.

Every request is counted: bytes of its body, number of tools that it offers, and tokens by one plain rule, a token per
four bytes, rounded up; no tokenizer is claimed.
In a test: fixture `model_server` (`tests/agents/plugin.py`), rules by `ModelServer.on`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.agents.dialects import Dialect, Event, Said, dialect_of
from tests.agents.script import FAULTS, Answers, Asked, Rule, Script, Step, kind
from tests.agents.vocabulary import blocks_of, call_of

MODELS = ("stub-model", "gemini-2.5-flash")
TAIL = 200  # characters of the user's turn that the log keeps


@dataclass(frozen=True, slots=True)
class Request:
    """One request that reached the model, and what it was answered."""

    number: int
    at: float  # wall clock, seconds
    method: str
    path: str
    tokens: int  # a token per four bytes of the body, rounded up
    tools: int = 0
    dialect: str = ""  # "" was no question to the model: a list of models, a count of tokens
    turn: str = ""  # the end of the latest user turn
    calls: int = 0  # tools that were called in that turn before
    rule: str = ""  # the rule that answered; "" is none
    step: str = ""
    said: str = ""  # the tool that was called, or the beginning of the text
    status: int = 200
    body: bytes = field(default=b"", repr=False)


def tokens_of(size: int) -> int:
    """Tokens of so many bytes, by the rule above."""
    return -(-size // 4)


class _Connections(ThreadingHTTPServer):
    """Knows its open connections, so that its end leaves no thread and no socket."""

    daemon_threads = False
    request_queue_size = 64

    def __init__(self, model: ModelServer) -> None:
        self.model = model
        self.connected: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Conversation)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connected.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connected.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that was killed in the middle of an answer is no fault of ours."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self.model.errors.append(repr(error))
            super().handle_error(request, client_address)


class ModelServer:
    """The server, its script and what reached it. Use it as a context, or `start` and `close` it."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.script = Script(rules)
        self.requests: list[Request] = []
        self.errors: list[str] = []  # of its own; a test ends with none
        self._lock = threading.Lock()
        self._http = _Connections(self)
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def asked(self) -> list[Request]:
        """The requests that were questions to the model."""
        return [request for request in self.requests if request.dialect]

    def on(self, match: str, *steps: Step, **more: Any) -> None:
        """Add a rule behind those there are: `server.on("make it faster", {"read": "a.py"}, {"text": "no"})`."""
        self.script.rules.append(Rule(match, steps, **more))

    def answer_with(self, answers: Answers, **more: Any) -> None:
        """Add a rule whose steps a function makes, or a generator one by one: see `Rule.answers`."""
        self.script.rules.append(Rule(answers=answers, **more))

    def __enter__(self) -> ModelServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End it: open connections are shut."""
        self._http.shutdown()
        for connected in list(self._http.connected):
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
        self._http.server_close()
        self._thread.join()

    def record(self, **values: Any) -> None:
        """Count a request."""
        body = values.pop("body")
        with self._lock:
            number = len(self.requests)
            size = len(body)
            request = Request(number, time.time(), tokens=tokens_of(size), body=body, **values)
            self.requests.append(request)

    def next_step(self, asked: Asked) -> tuple[str, Step, Sequence[Step]]:
        with self._lock:
            return self.script.step(asked)


class _Conversation(BaseHTTPRequestHandler):
    """One connection of an agent."""

    protocol_version = "HTTP/1.1"
    server: _Connections

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the requests are recorded."""

    def do_HEAD(self) -> None:
        self._send_json({})

    def do_GET(self) -> None:
        self.server.model.record(method="GET", path=self.path, body=b"")
        listed = [{"id": name, "object": "model", "type": "model", "display_name": name} for name in MODELS]
        gemini = [{"name": f"models/{name}"} for name in MODELS]
        self._send_json({"object": "list", "data": listed, "models": gemini, "has_more": False})

    def do_POST(self) -> None:
        body, path = self._body(), self.path.partition("?")[0]
        dialect = dialect_of(path)
        if dialect is not None:
            self._answer(dialect, json.loads(body), body)
            return
        self.server.model.record(method="POST", path=self.path, body=body)
        if path.endswith("count_tokens"):
            self._send_json({"input_tokens": tokens_of(len(body))})
        elif path.endswith(":countTokens"):
            self._send_json({"totalTokens": tokens_of(len(body))})
        else:
            self._send_json({})

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("transfer-encoding") or ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, dialect: Dialect, data: Mapping[str, Any], body: bytes) -> None:
        asked = dialect.read(data, self.path.partition("?")[0])
        rule, step, steps = self.server.model.next_step(asked)
        what = kind(step)
        known: dict[str, Any] = {
            **{"method": "POST", "path": self.path, "body": body, "dialect": dialect.name, "tools": len(asked.tools)},
            **{"turn": asked.text[-TAIL:], "calls": len(asked.calls), "rule": rule, "step": what},
        }
        if what in FAULTS:
            status, message = int(step["http"]), str(step.get("message", "scripted"))
            self.server.model.record(**known, said=message, status=status)
            self.close_connection = True
            self._send_json(dialect.fault(status, message), status)
            return
        said = _said(step, steps, asked, len(body))
        self.server.model.record(**known, said=said.tool or said.text[:TAIL])
        if asked.stream:
            self._send_events(dialect.events(said, asked.model))
        else:
            self._send_json(dialect.whole(said, asked.model))

    def _send_json(self, data: Any, status: int = 200) -> None:
        content = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _send_events(self, events: Iterable[Event]) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for name, data in events:
            head = f"event: {name}\n" if name else ""
            self.wfile.write(f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode())


def _said(step: Step, steps: Sequence[Step], asked: Asked, size: int) -> Said:
    """What a step says in answer to this request."""
    tool: str = ""
    arguments: dict[str, Any] = {}
    text = ""
    if asked.in_blocks and steps:
        text = blocks_of(steps, asked)
    elif isinstance(call := call_of(step, asked), str):
        text = call
    else:
        tool, arguments = call
    usage = tokens_of(size), tokens_of(len(text) or len(json.dumps(arguments)))
    namespace = asked.namespaces.get(tool, "")
    return Said(tool, arguments, text, usage, namespace)
