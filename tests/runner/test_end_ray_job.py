"""The program that ends a Ray job: against a real HTTP server that speaks the Jobs API, token and all."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

PROGRAM = Path(__file__).parents[2] / "autoresearch" / "runner" / "end_ray_job.py"


@dataclass
class Cluster:
    """The jobs of a head, by their submission id, and what was asked of it."""

    jobs: dict[str, str] = field(default_factory=dict)
    token: str = ""
    lingers: int = 2  # answers for which a job that was asked to stop still runs
    hiccups: list[str] = field(default_factory=list)  # what is answered after a stop: busy, half
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, method: str, path: str, token: str) -> tuple[int, dict[str, object]]:
        self.asked.append(f"{method} {path}")
        if self.token and token != f"Bearer {self.token}":
            return 401, {}
        name = path.split("/")[3]
        if name not in self.jobs:
            return 404, {}
        if path.endswith("/stop"):
            self.jobs[name] = "STOPPING"
            return 200, {"stopped": True}
        if self.jobs[name] == "STOPPING" and self.hiccups:
            return (503, {}) if self.hiccups.pop() == "busy" else (200, {"half": True})
        if self.jobs[name] == "STOPPING":
            self.lingers -= 1
            if self.lingers < 0:
                self.jobs[name] = "STOPPED"
        shown = "RUNNING" if self.jobs[name] == "STOPPING" else self.jobs[name]
        return 200, {"submission_id": name, "status": shown}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    one = Cluster()

    class Head(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, found = one.answer(self.command, self.path, self.headers.get("Authorization") or "")
            body = json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body) + 9 * ("half" in found)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Head) as server:
        one.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield one
        server.shutdown()
        thread.join()


def end(address: str, job: str, home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-I", str(PROGRAM), address, job]
    return subprocess.run(words, env={"HOME": str(home), **env}, capture_output=True, text=True, timeout=120)


def test_a_job_that_runs_is_stopped_and_waited_for(cluster: Cluster, tmp_path: Path) -> None:
    cluster.jobs = {"ajet_a": "RUNNING", "ajet_b": "RUNNING"}
    done = end(cluster.url, "ajet_a", tmp_path, http_proxy="http://127.0.0.1:9")  # no proxy is asked about ourselves
    assert (done.returncode, done.stderr) == (0, "")
    assert cluster.jobs == {"ajet_a": "STOPPED", "ajet_b": "RUNNING"}
    assert done.stdout.endswith(": stopped\n")


@pytest.mark.parametrize(("status", "said"), [("SUCCEEDED", "succeeded"), ("FAILED", "failed"), ("", "there is none")])
def test_a_job_that_is_over_is_left_alone(cluster: Cluster, tmp_path: Path, status: str, said: str) -> None:
    cluster.jobs = {"ajet_a": status} if status else {}
    done = end("", "ajet_a", tmp_path, RAY_ADDRESS=f"{cluster.url}/")
    assert (done.returncode, done.stdout.strip().endswith(said)) == (0, True)
    assert cluster.asked == ["GET /api/jobs/ajet_a"]


@pytest.mark.parametrize("where", ["variable", "path", "home", "headers"])
def test_the_token_is_where_ray_looks_for_it(cluster: Cluster, tmp_path: Path, where: str) -> None:
    cluster.jobs, cluster.token, cluster.lingers = {"ajet_a": "PENDING"}, "s3cret", 0
    (tmp_path / ".ray").mkdir()
    (tmp_path / "other").write_text("s3cret\n")
    if where == "home":
        (tmp_path / ".ray" / "auth_token").write_text("s3cret\n")
    given = {
        "variable": {"RAY_AUTH_TOKEN": "s3cret"},
        "path": {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "other")},
        "headers": {"RAY_JOB_HEADERS": '{"authorization": "Bearer s3cret"}'},
    }
    address = cluster.url.removeprefix("http://")
    done = end("", "ajet_a", tmp_path, RAY_API_SERVER_ADDRESS=address, **given.get(where, {}))
    assert (done.returncode, cluster.jobs["ajet_a"]) == (0, "STOPPED"), done.stdout
    assert "s3cret" not in done.stdout


@pytest.mark.parametrize("hiccups", [["busy"], ["half", "busy", "half"]])
def test_a_hiccup_of_the_head_is_no_word_about_the_job(cluster: Cluster, tmp_path: Path, hiccups: list[str]) -> None:
    cluster.jobs, cluster.hiccups = {"ajet_a": "RUNNING"}, hiccups
    done = end(cluster.url, "ajet_a", tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.endswith(": stopped\n")


def test_what_cannot_be_known_is_a_failure(cluster: Cluster, tmp_path: Path) -> None:
    cluster.jobs, cluster.token = {"ajet_a": "RUNNING"}, "s3cret"
    done = end(cluster.url, "ajet_a", tmp_path)
    assert (done.returncode, "could not be ended" in done.stdout, done.stderr) == (1, True, "")
    assert cluster.jobs == {"ajet_a": "RUNNING"}
    assert end("http://127.0.0.1:1", "ajet_a", tmp_path).returncode == 1
