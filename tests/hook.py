"""A web hook on loopback, as a team's chat has one: what was posted to it, and answers of the test's choice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

TOKEN = "s3cr3t-t0ken-4711"  # its last path segment, as a chat's hook has one


class Hook:
    """The server; `answers` are the status codes of the next posts, 200 when there are none left."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.answers: list[int] = []
        ours = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                code = ours.answers.pop(0) if ours.answers else 200
                if code == 200:
                    ours.posts.append(body)
                self.send_response(code)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """As `notify:` takes it."""
        return f"json://127.0.0.1:{self.port}/hooks/{TOKEN}"

    @property
    def titles(self) -> list[str]:
        return [post["title"] for post in self.posts]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    """A hook that lives as long as the test; no proxy stands before it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    one = Hook()
    yield one
    one.close()
