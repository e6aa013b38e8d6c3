"""Who may read what the server of `report --serve` serves: real requests on a real loopback port."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from autoresearch.errors import ConflictError, UsageError
from autoresearch.lab.campaign_report.live import LiveServer, WebAnswer


class OnePage:
    """A site that serves a page, remembers what it was asked, and fails on demand."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.text = b'{"n": 1}' * 100

    def answer(self, path: str) -> WebAnswer | None:
        self.asked.append(path)
        if path == "gone":
            raise UsageError("its records were removed")
        return WebAnswer(self.text) if path == "data.json" else None


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with LiveServer(cast("Any", OnePage())) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def get(server: LiveServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one request; `path` is behind the token unless it begins with a slash."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    whole = path if path.startswith("/") else f"/{server.token}/{path}"
    connection.putrequest(method, whole, skip_host=True, skip_accept_encoding=True)
    for name, value in {"Host": f"localhost:{server.server_port}", **headers}.items():
        if value:
            connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.headers), body


def test_with_the_token_it_answers_and_forbids_everything_else_to_the_browser(server: LiveServer) -> None:
    status, headers, body = get(server, "data.json")
    assert (status, body) == (200, server.live_report.text)  # type: ignore[attr-defined]
    assert headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "Python" not in headers["Server"]
    assert server.url == f"http://127.0.0.1:{server.server_port}/{server.token}/" and len(server.token) == 32


@pytest.mark.parametrize(
    "path",
    ["/", "", "/data.json", "/x/data.json", "/TOKENx/data.json", "/TOKE/data.json", "/%2e/", "/é",
     "/?token=TOKEN", "*", "/./TOKEN/data.json"],
)  # fmt: skip
def test_without_the_token_there_is_nothing(server: LiveServer, path: str) -> None:
    line = path.replace("TOKEN", server.token).replace("TOKE", server.token[:-1]) or "/"
    raw = f"GET {line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as link:
        link.sendall(raw)
        said = b"".join(iter(lambda: link.recv(65536), b""))
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.split()[1] == b"403" and body == b""
    assert server.live_report.asked == []  # type: ignore[attr-defined]


def test_it_answers_to_names_of_this_machine_alone(server: LiveServer) -> None:
    """Not to a name that somebody points to it; but at any port, as `ssh -L` may listen on another one."""
    strange = ("", "evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.nip.io", "[::2]", "[", "a@b")
    assert {host: get(server, "data.json", Host=host)[0] for host in strange} == dict.fromkeys(strange, 403)
    assert server.live_report.asked == []  # type: ignore[attr-defined]
    ours = ("127.0.0.1:1", "localhost", "LOCALHOST:9000", "[::1]:9000")
    assert {host: get(server, "data.json", Host=host)[0] for host in ours} == dict.fromkeys(ours, 200)


def test_it_is_read_only(server: LiveServer) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT"):
        status, _, body = get(server, "data.json", method)
        assert (status, body, server.live_report.asked) == (405, b"", []), method  # type: ignore[attr-defined]


def test_head_conditional_missing_and_unreadable(server: LiveServer) -> None:
    status, headers, body = get(server, "data.json", "HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", "800")
    assert get(server, "data.json", If_None_Match=headers["Etag"])[::2] == (304, b"")
    server.live_report.text = b"{}"  # type: ignore[attr-defined]
    assert get(server, "data.json", If_None_Match=headers["Etag"])[::2] == (200, b"{}")
    assert get(server, "../../etc/passwd")[0] == 404 and get(server, "c/x/")[0] == 404
    assert get(server, "gone")[::2] == (503, b"")
    status, headers, _ = get(server, f"/{server.token}")
    assert (status, headers["Location"]) == (308, f"/{server.token}/")


def test_it_listens_on_the_loopback_interface_alone_and_a_taken_port_is_a_conflict(server: LiveServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(ConflictError, match=f"port {server.server_port} is taken"):
        LiveServer(OnePage(), server.server_port)
    with LiveServer(cast("Any", OnePage())) as other:
        assert other.token != server.token
