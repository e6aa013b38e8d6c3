"""End one Ray job by its submission id: `python end_ray_job.py ADDRESS ID`. Standard library only.

The run's process tree contains only the client; when that is ended, the job goes on under Ray's daemons. The Runner
therefore runs this after any ending. ADDRESS "" means RAY_API_SERVER_ADDRESS or RAY_ADDRESS, as for `ray job submit`;
the token is read from where Ray reads it. (ray/dashboard/modules/job/cli.py at 0718d5b0, ray/_private/authentication
at 2d9648fa) Exits with 0 if the job is over or does not exist, 1 if its status is unknown or it could not be ended.
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


def url_of(address: str, environ: Mapping[str, str]) -> str:
    """URL of the Ray head's dashboard, without a trailing slash."""
    named = address or environ.get("RAY_API_SERVER_ADDRESS") or environ.get("RAY_ADDRESS") or ""
    if named in ("", "auto", "local"):
        named = "http://127.0.0.1:8265"
    return (named if "://" in named else f"http://{named}").rstrip("/")


def headers_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Headers of every request: RAY_JOB_HEADERS, and the token, if there is one.

    The token is also sent in Ray's second header, because a proxy may consume or strip `Authorization`.
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
    """Whether the URL names this host, so that no proxy is to be used."""
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


def ask(
    method: str, url: str, environ: Mapping[str, str], data: bytes | None = None, *, within_s: float
) -> tuple[int, bytes]:
    """The status and body that a head answers to JSON `data`, whatever the status. Raises OSError."""
    headers = headers_of(environ)  # each time: a token may be renewed
    if data is not None:
        headers["Content-Type"] = "application/json"
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_here(url) else []))
    try:
        try:
            answer = opener.open(urllib.request.Request(url, data, headers, method=method), timeout=within_s)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return answer.status, answer.read()
    except http.client.HTTPException as error:  # a truncated answer
        raise OSError(f"{url} gives no whole answer: {error!r}") from None


def end(job_url: str, environ: Mapping[str, str], patience_s: float = PATIENCE_S) -> str:
    """Stop a job and wait at most `patience_s` until it is over; returns its last status. Raises OSError."""
    status = _status(job_url, environ)
    if status == "" or status in OVER:
        return status
    _record("POST", f"{job_url}/stop", environ)
    until = time.monotonic() + patience_s
    while status not in OVER and time.monotonic() < until:
        time.sleep(0.2)
        try:
            status = _status(job_url, environ) or "STOPPED"
        except OSError:  # a transient failure says nothing about the job
            continue
    return status


def _status(job_url: str, environ: Mapping[str, str]) -> str:
    """PENDING, RUNNING, or one of OVER; "" if there is no such job. Raises OSError."""
    return str(_record("GET", job_url, environ).get("status", "")).upper()


def _record(method: str, url: str, environ: Mapping[str, str]) -> dict[str, object]:
    """What is answered about a job; {} for no such job. Raises OSError."""
    status, body = ask(method, url, environ, within_s=ANSWER_S)
    if status == 404:
        return {}
    if status >= 300:
        raise OSError(f"HTTP {status}")
    try:
        found = json.loads(body)
    except ValueError:
        raise OSError(f"{url} is no Jobs API: it answers with something else than JSON") from None
    return found if isinstance(found, dict) else {}


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Print the outcome in one line; returns the exit status."""
    url, name = url_of(argv[1], environ), argv[2]
    try:
        status = end(f"{url}/api/jobs/{urllib.parse.quote(name, safe='')}", environ)
    except (OSError, ValueError) as error:
        print(f"the Ray job {name} could not be ended at {url}: {error}", flush=True)
        return 1
    print(f"the Ray job {name} at {url}: {status.lower() or 'there is none'}", flush=True)
    return 0 if status == "" or status in OVER else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv, os.environ))
