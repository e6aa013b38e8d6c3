"""Ray's Jobs API over plain HTTP, with its errors classified. Nothing of Ray is imported.

Paths and answers as in ray/dashboard/modules/job/job_head.py and ray/dashboard/modules/state/state_head.py of Ray 2.60
(ray-project/ray at b7f4259e). Address and token are found as `ray job` finds them, see `runner.end_ray_job`.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoresearch.core.run.job_launcher import Unreachable
from autoresearch.runner.end_ray_job import headers_of, is_here, url_of

ANSWER_S = 30.0  # a submit alone waits 10 s for an agent
_NOT_NOW = (408, 425, 429, 502, 503, 504)
_TOKEN_HINT = "set RAY_AUTH_TOKEN, or write the cluster's token to ~/.ray/auth_token"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The head's answer. `body` is None if it is no JSON."""

    status: int
    text: str
    body: Any

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return self.status < 300

    @property
    def last_line(self) -> str:
        """The last line, which in a traceback names the error."""
        lines = self.text.strip().splitlines()
        return lines[-1].strip()[:300] if lines else f"HTTP {self.status}"


class RayApi:
    """One cluster's head. Every call raises Unreachable if there is no answer, or not one of a Jobs API."""

    def __init__(self, address: str, environ: Mapping[str, str]) -> None:
        self.url = url_of(address, environ)
        self.environ = environ
        self.offset_s = 0.0  # the head's wall clock minus the local one, from the Date header: to a second
        self._opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_here(self.url) else []))

    def job(self, native: str) -> dict[str, Any] | None:
        """The head's record of one job; None for no such job."""
        said = self.ask("GET", f"/api/jobs/{quoted(native)}")
        if said.status == 404:
            return None
        return dict(self.expect(said, dict))

    def listed(self, what: str) -> list[dict[str, Any]]:
        """All entries of the state API's list of actors, placement_groups or nodes, in full detail."""
        found = self.expect(self.ask("GET", f"/api/v0/{what}?detail=1&limit=10000&timeout=20"), dict)
        try:
            return [dict(one) for one in found["data"]["result"]["result"]]
        except (KeyError, TypeError, ValueError):
            raise Unreachable(f"{self.url} does not say which {what} there are", code="odd_answer") from None

    def totals(self, resource: str) -> list[float]:
        """The total of a resource on each living node, in use or not; [0.0] without nodes."""
        nodes = [node for node in self.listed("nodes") if node.get("state") == "ALIVE"]
        return [float((node.get("resources_total") or {}).get(resource, 0.0)) for node in nodes] or [0.0]

    def ask(self, method: str, path: str, body: object = None, *, data: bytes | None = None) -> HttpAnswer:
        """One request; `body` is sent as JSON, `data` as it is."""
        headers = headers_of(self.environ)  # each time: a token may be renewed
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif data is not None:
            headers["Content-Type"] = "application/octet-stream"
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=ANSWER_S) as answer:
                self._note_date(answer.headers.get("Date"))
                return self._answer(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return self._answer(error.code, error.read())
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise Unreachable(f"Ray at {self.url} gives no answer: {why}") from error

    def expect(self, http_answer: HttpAnswer, kind: type) -> Any:
        """The body of a successful answer of the given type; raises Unreachable otherwise."""
        if http_answer.ok and isinstance(http_answer.body, kind):
            return http_answer.body
        if http_answer.ok:
            raise Unreachable(f"{self.url} is no Ray dashboard: it answers with something else than JSON")
        raise Unreachable(
            f"Ray at {self.url} answers HTTP {http_answer.status}: {http_answer.last_line}", code="odd_answer"
        )

    def _note_date(self, date: str | None) -> None:
        with contextlib.suppress(TypeError, ValueError):
            difference = email.utils.parsedate_to_datetime(date or "").timestamp() - time.time()
            self.offset_s = difference if abs(difference) > 2.0 else 0.0

    def _answer(self, status: int, raw: bytes) -> HttpAnswer:
        text = raw.decode("utf-8", "replace")
        if status in (401, 403):
            raise Unreachable(
                f"Ray at {self.url} wants another token (HTTP {status})", code="unauthorized", hint=_TOKEN_HINT
            )
        if status in _NOT_NOW:
            raise Unreachable(f"Ray at {self.url} cannot answer now (HTTP {status})")
        try:
            return HttpAnswer(status, text, json.loads(text))
        except ValueError:
            return HttpAnswer(status, text, None)


def quoted(native: str) -> str:
    """An id as one component of a URL path."""
    return urllib.parse.quote(native, safe="")
