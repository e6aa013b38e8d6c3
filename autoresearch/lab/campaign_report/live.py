"""What `report --serve` serves: the page of a campaign, and the data that the page asks for again.

A read-only HTTP server on this machine's loopback interface, whose addresses begin with a secret. Other accounts of the
machine, and pages in the reader's browser, can reach a loopback port, too: so every path begins with a random token,
compared in constant time, and the Host header must name this machine (DNS rebinding). Whoever lacks either gets 403 and
an empty body.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sys
import threading
import time
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from autoresearch.core.controller.rules import stand_at
from autoresearch.errors import AutoresearchError, ConflictError, EnvironmentUnusable, NotFoundError
from autoresearch.lab.campaign_report.curves_and_diffs import CurveReader
from autoresearch.lab.campaign_report.formatting import stamp
from autoresearch.lab.campaign_report.report import page_data, page_html
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.parts import Parts
from autoresearch.records.campaign_records import CampaignDir

LOOPBACK = "127.0.0.1"
_OURS = frozenset({LOOPBACK, "localhost", "::1"})  # any port: that of `ssh -L` may be another one
SILENT_S = 60.0  # until a connection on which nothing comes is closed
HEADERS = {
    "Cache-Control": "no-store",
    # a page allows its own script by a nonce (in a <meta>): both policies hold
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address is the secret
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """What is sent for a path."""

    body: bytes
    kind: str = "application/json"

    @property
    def tag(self) -> str:
        """Differs whenever the body does."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:24]}"'


class LiveServer(ThreadingHTTPServer):
    """Serves the page of a campaign on a loopback port; 0 is a free one. ConflictError for one that is taken."""

    daemon_threads = True

    def __init__(self, live_report: LiveReport, port: int = 0) -> None:
        self.live_report, self.token = live_report, secrets.token_hex(16)
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except PermissionError as error:
            message = f"port {port} cannot be used: {error.strerror}"
            raise EnvironmentUnusable(message, code="no_port", hint="ports from 1024 on are free for all") from error
        except OSError as error:
            hint = "without --port a free one is taken"
            raise ConflictError(f"port {port} is taken: {error.strerror}", code="port_taken", hint=hint) from error

    @property
    def url(self) -> str:
        """The address of its first page."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away is no error of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: LiveServer
    protocol_version = "HTTP/1.1"
    timeout = SILENT_S

    def do_GET(self) -> None:
        """Answer a request."""
        path = urlsplit(self.path).path
        token, slash, rest = path.removeprefix("/").partition("/")
        if not self._host_is_ours() or not _same(token, self.server.token):
            self._send(HTTPStatus.FORBIDDEN)
            return
        if not slash:
            self._send(HTTPStatus.PERMANENT_REDIRECT, location=f"/{self.server.token}/")
            return
        try:
            answer = self.server.live_report.answer(rest)
        except (AutoresearchError, OSError, ValueError, KeyError, TypeError):
            self._send(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        if answer is None:
            self._send(HTTPStatus.NOT_FOUND)
        elif self.headers.get("If-None-Match") == answer.tag:
            self._send(HTTPStatus.NOT_MODIFIED, etag=answer.tag)
        else:
            self._send(HTTPStatus.OK, answer.body, etag=answer.tag, content_type=answer.kind)

    do_HEAD = do_GET  # noqa: N815 - the names of http.server

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """For what http.server itself refuses: malformed requests, and methods other than GET and HEAD."""
        self.close_connection = True
        self._send(HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code))

    def version_string(self) -> str:
        """Nothing that a scanner could use."""
        return "autoresearch"

    def log_message(self, format: str, *args: Any) -> None:
        """No log: it would hold the token."""

    def _send(self, status: HTTPStatus, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-").title(), value)
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _host_is_ours(self) -> bool:
        """Whether the browser was told to go to this machine, and not to a name that somebody points to it."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1:
            return False
        try:
            return urlsplit(f"//{hosts[0]}").hostname in _OURS
        except ValueError:
            return False


def _same(token: str, secret: str) -> bool:
    return hmac.compare_digest(token.encode("utf-8", "surrogateescape"), secret.encode())


EVERY_S = 4.0  # between two readings of the records
SHARE = 10.0  # what took a second to read is read again after ten at the earliest
READ_S = 1.0  # of reading the curves of runs that are over, at each reading
_UNREADABLE = (AutoresearchError, OSError, ValueError, KeyError, TypeError, IndexError)


class LiveReport:
    """The page of one campaign."""

    def __init__(self, campaign_dir: CampaignDir, parts: Parts) -> None:
        self._campaign_dir, self._parts = campaign_dir, parts
        self._history: CampaignHistory | None = None
        self._curves = CurveReader(READ_S)
        self._lock = threading.Lock()
        self._data: dict[str, Any] = {}
        self._next = float("-inf")  # monotonic

    def answer(self, path: str) -> WebAnswer | None:
        """For the path behind the token, without its first slash; None for none. Called by several threads.

        Raises AutoresearchError, OSError or ValueError for what cannot be read now.
        """
        if path == "":
            return WebAnswer(page_html(self.data(), live=True).encode(), "text/html; charset=utf-8")
        if path == "data.json":
            return WebAnswer(json.dumps(self.data(), allow_nan=False, separators=(",", ":")).encode())
        return None

    def data(self) -> dict[str, Any]:
        """All that the page shows. Raises what reading the records for the first time raises."""
        with self._lock:
            if time.monotonic() >= self._next:
                began = time.monotonic()
                try:
                    self._data = self._read()
                except _UNREADABLE as error:
                    if not self._data:
                        raise
                    reason = f"as of {stamp(self._data['read'])}: the records cannot be read now ({error})"
                    self._data = {**self._data, "remarks": [reason], "trouble": reason}
                    self._history = None  # they may be others by now
                now = time.monotonic()
                self._next = now + (0.0 if self._data.get("unread") else max(EVERY_S, SHARE * (now - began)))
            return self._data

    def _read(self) -> dict[str, Any]:
        own = self._campaign_dir
        if not own.spec.is_file():  # its history would go on as that of an empty campaign
            raise NotFoundError(f"{own.path} was removed")
        changed = max(path.stat().st_mtime for path in (own.spec, own.events) if path.exists())
        self._history = self._history or CampaignHistory(own)
        state, now = self._history.state(), self._parts.clock()
        data = page_data(own, state, stand_at(state, now), now, self._curves)
        return data | {"changed": int(changed), "read": int(now)}
