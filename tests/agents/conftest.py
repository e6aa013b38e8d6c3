"""A client of a model that is none of the real agents: plain HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

Ask = Callable[..., "Reply"]


@dataclass(frozen=True)
class Reply:
    """One answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def events(self) -> list[Any]:
        """The data of its events, in order."""
        lines = [line for line in self.content.decode().splitlines() if line.startswith("data: ")]
        return [line[6:] if line == "data: [DONE]" else json.loads(line[6:]) for line in lines]


@pytest.fixture
def ask() -> Ask:
    """`ask(port, path, body)`: post JSON, or get where there is no body."""

    def send(port: int, path: str, body: object = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
            connection.request(method, path, data)
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    return send
