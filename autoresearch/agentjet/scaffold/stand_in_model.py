"""A stand-in for the model behind an agent: a local OpenAI-compatible endpoint that always gives the same answer.

It costs nothing, and shows whether an agent uses the given endpoint at all.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REPLY = "I do not know."
_MOST_BODY = 1 << 26


@dataclass(slots=True)
class StandIn:
    """Its address and counters: `requests` counts them, `unknown` lists unsupported paths."""

    base_url: str
    requests: int = 0
    unknown: list[str] = field(default_factory=list)


@contextlib.contextmanager
def stand_in_model() -> Iterator[StandIn]:
    """Answer chat completions, whole or streamed, while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.daemon_threads = True
    state = StandIn(f"http://127.0.0.1:{server.server_address[1]}/v1")
    server.state = state  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Answers(BaseHTTPRequestHandler):
    timeout = 60
    protocol_version = "HTTP/1.0"  # the connection ends with the answer

    def do_GET(self) -> None:
        if self.path.rstrip("/").endswith("/models"):
            self._send({"object": "list", "data": [{"id": "stand-in", "object": "model", "owned_by": "autoresearch"}]})
        else:
            self._unknown()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length") or "0"
        body = self.rfile.read(min(int(length), _MOST_BODY)) if length.isdecimal() else b""
        if not self.path.partition("?")[0].rstrip("/").endswith("/chat/completions"):
            self._unknown()
            return
        self._state.requests += 1
        try:
            request = json.loads(body)
        except ValueError:
            self._send({"error": {"message": "the body is no JSON"}}, 400)
            return
        if isinstance(request, dict) and request.get("stream"):
            self._stream()
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": REPLY}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 5, "total_tokens": 6}
            self._send({**_head("chat.completion"), "choices": [choice], "usage": usage})

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""

    @property
    def _state(self) -> StandIn:
        state = self.server.state  # type: ignore[attr-defined]
        assert isinstance(state, StandIn)
        return state

    def _unknown(self) -> None:
        self._state.unknown.append(f"{self.command} {self.path[:80]}")
        self._send({"error": {"message": f"this stand-in has no {self.path[:80]}"}}, 404)

    def _stream(self) -> None:
        reply: dict[str, object] = {"delta": {"role": "assistant", "content": REPLY}, "finish_reason": None}
        over: dict[str, object] = {"delta": {}, "finish_reason": "stop"}
        events = [{**_head("chat.completion.chunk"), "choices": [{"index": 0, **part}]} for part in (reply, over)]
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self._raw(text.encode(), 200, "text/event-stream")

    def _send(self, value: dict[str, object], status: int = 200) -> None:
        self._raw(json.dumps(value).encode(), status, "application/json")

    def _raw(self, body: bytes, status: int, kind: str) -> None:
        with contextlib.suppress(ConnectionError):  # the agent may be gone already
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


def _head(kind: str) -> dict[str, object]:
    return {"id": "stand-in", "object": kind, "created": int(time.time()), "model": "stand-in"}
