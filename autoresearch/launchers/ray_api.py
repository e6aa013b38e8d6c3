"""Ray's Jobs API over plain HTTP: what is asked, and what an answer means. Nothing of Ray is imported.

Paths and answers as in ray/dashboard/modules/job/job_head.py and ray/dashboard/modules/state/state_head.py of Ray
2.60 (ray-project/ray at b7f4259e). Address and token are found as `ray job` finds them, see `runner.end_ray_job`.
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

ANSWER_S = 30.0  # a submit waits 10 s for an agent by itself
_NOT_NOW = (408, 425, 429, 502, 503, 504)
_TOKEN_HINT = "set RAY_AUTH_TOKEN, or write the cluster's token to ~/.ray/auth_token"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What the head said. `body` is {} or [] where it is no JSON."""

    status: int
    text: str
    body: Any

    @property
    def ok(self) -> bool:
        """Whether it did what was asked."""
        return self.status < 300

    @property
    def last_line(self) -> str:
        """What a traceback comes to."""
        lines = self.text.strip().splitlines()
        return lines[-1].strip()[:300] if lines else f"HTTP {self.status}"


class RayApi:
    """One cluster's head. Every call raises Unreachable where nobody answers, or not as a Jobs API."""

    def __init__(self, address: str, environ: Mapping[str, str]) -> None:
        self.url = url_of(address, environ)
        self.environ = environ
        self.offset_s = 0.0  # the head's wall clock minus ours, by the date of an answer: to a second
        self._opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_here(self.url) else []))

    def job(self, native: str) -> dict[str, Any] | None:
        """What it knows of one job; None for no such job."""
        said = self.ask("GET", f"/api/jobs/{quoted(native)}")
        if said.status == 404:
            return None
        return dict(self.expect(said, dict))

    def listed(self, what: str) -> list[dict[str, Any]]:
        """What the state API lists: actors, placement_groups, nodes; all of it, with all that is known."""
        found = self.expect(self.ask("GET", f"/api/v0/{what}?detail=1&limit=10000&timeout=20"), dict)
        try:
            return [dict(one) for one in found["data"]["result"]["result"]]
        except (KeyError, TypeError, ValueError):
            raise Unreachable(f"{self.url} does not say which {what} there are", code="odd_answer") from None

    def totals(self, resource: str) -> list[float]:
        """How much of a resource each living node has, in use or not; [0.0] where there is none."""
        nodes = [node for node in self.listed("nodes") if node.get("state") == "ALIVE"]
        return [float((node.get("resources_total") or {}).get(resource, 0.0)) for node in nodes] or [0.0]

    def ask(self, method: str, path: str, body: object = None, *, data: bytes | None = None) -> HttpAnswer:
        """One request; `body` goes as JSON, `data` as it is."""
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

    def expect(self, said: HttpAnswer, kind: type) -> Any:
        """The body of an answer that must be one of a kind."""
        if said.ok and isinstance(said.body, kind):
            return said.body
        if said.ok:
            raise Unreachable(f"{self.url} is no Ray dashboard: it answers with something else than JSON")
        raise Unreachable(f"Ray at {self.url} answers HTTP {said.status}: {said.last_line}", code="odd_answer")

    def _note_date(self, said: str | None) -> None:
        with contextlib.suppress(TypeError, ValueError):
            difference = email.utils.parsedate_to_datetime(said or "").timestamp() - time.time()
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
    """An id as one part of a path."""
    return urllib.parse.quote(native, safe="")
