"""End one Ray job by its submission id: `python end_ray_job.py ADDRESS ID`, a program of the standard library alone.

A run's session holds the client only; the job goes on under Ray's daemons when that is ended. The Runner runs this
after any ending. ADDRESS "" is what RAY_API_SERVER_ADDRESS or RAY_ADDRESS say, as for `ray job submit`; the token is
where Ray looks for it. (ray/dashboard/modules/job/cli.py at 0718d5b0, ray/_private/authentication at 2d9648fa)
Exits 0 where the job is over or was never there, 1 where that cannot be known or made so.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

OVER = ("STOPPED", "SUCCEEDED", "FAILED")
PATIENCE_S = 60.0  # Ray itself gives a job three seconds between TERM and KILL
ANSWER_S = 15.0
_HERE = ("127.0.0.1", "localhost", "::1")


def url_of(given: str, environ: Mapping[str, str]) -> str:
    """The head's dashboard, without a slash at its end."""
    named = given or environ.get("RAY_API_SERVER_ADDRESS") or environ.get("RAY_ADDRESS") or ""
    if named in ("", "auto", "local"):
        named = "http://127.0.0.1:8265"
    return (named if "://" in named else f"http://{named}").rstrip("/")


def headers_of(environ: Mapping[str, str]) -> dict[str, str]:
    """What every request carries: RAY_JOB_HEADERS, and the token, where there is one.

    It goes by Ray's second header, too: a proxy in between may have the first one for itself, or take it away.
    """
    found: dict[str, str] = {}
    try:
        found = {str(key): str(value) for key, value in json.loads(environ.get("RAY_JOB_HEADERS") or "{}").items()}
    except (ValueError, AttributeError):
        pass
    token = _token(environ)
    for name in ("Authorization", "X-Ray-Authorization") if token else ():
        if name.lower() not in [key.lower() for key in found]:
            found[name] = f"Bearer {token}"
    return found


def is_here(url: str) -> bool:
    """Whether it names this host, which no proxy needs to know."""
    return urllib.parse.urlsplit(url).hostname in _HERE


def _token(environ: Mapping[str, str]) -> str:
    if environ.get("RAY_AUTH_MODE", "").lower() == "disabled":
        return ""
    if environ.get("RAY_AUTH_TOKEN"):
        return environ["RAY_AUTH_TOKEN"].strip()
    path = environ.get("RAY_AUTH_TOKEN_PATH") or os.path.join(environ.get("HOME") or "/", ".ray", "auth_token")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


class RaySubmission:
    """One job behind the Jobs API."""

    def __init__(self, url: str, job: str, headers: Mapping[str, str]) -> None:
        self.url = f"{url}/api/jobs/{urllib.parse.quote(job, safe='')}"
        self.headers = dict(headers)
        self.opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_here(url) else []))

    def status(self) -> str:
        """PENDING, RUNNING, or one of OVER; "" where there is no such job. Raises OSError."""
        try:
            return str(self._ask("GET", self.url).get("status", "")).upper()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return ""
            raise

    def stop(self) -> None:
        """Ask for its end. Raises OSError."""
        self._ask("POST", f"{self.url}/stop")

    def _ask(self, method: str, url: str) -> dict[str, object]:
        request = urllib.request.Request(url, method=method, headers=self.headers)
        try:
            with self.opener.open(request, timeout=ANSWER_S) as answer:
                found = json.loads(answer.read())
        except ValueError:
            raise OSError(f"{url} is no Jobs API: it answers with something else than JSON") from None
        except http.client.HTTPException as error:  # half an answer
            raise OSError(f"{url} gives no whole answer: {error!r}") from None
        return found if isinstance(found, dict) else {}


def end(job: RaySubmission, patience_s: float = PATIENCE_S) -> str:
    """Stop it and wait until it is over; its last status. Raises OSError where nobody answers."""
    status = job.status()
    if status == "" or status in OVER:
        return status
    job.stop()
    until = time.monotonic() + patience_s
    while status not in OVER and time.monotonic() < until:
        time.sleep(0.2)
        try:
            status = job.status() or "STOPPED"
        except OSError:  # a hiccup says nothing of a job that was asked to stop
            continue
    return status


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Say in one line what became of the job."""
    url, name = url_of(argv[1], environ), argv[2]
    try:
        status = end(RaySubmission(url, name, headers_of(environ)))
    except (OSError, ValueError) as error:
        print(f"the Ray job {name} could not be ended at {url}: {error}", flush=True)
        return 1
    print(f"the Ray job {name} at {url}: {status.lower() or 'there is none'}", flush=True)
    return 0 if status == "" or status in OVER else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv, os.environ))
