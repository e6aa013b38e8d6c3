"""The program that ends a Ray job: against a server that answers as Ray's head does, token and all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

PROGRAM = Path(__file__).parents[2] / "autoresearch" / "runner" / "end_ray_job.py"


@pytest.fixture
def job(fake_ray: Any) -> Callable[[], str]:
    """Two jobs of a head; calls give the status of the first."""
    for name in ("ajet_a", "ajet_b"):
        fake_ray.submit({"submission_id": name, "entrypoint": "exec sleep 600"})
    return lambda: str(fake_ray.jobs["ajet_a"].status)


def end(address: str, job: str, home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-I", str(PROGRAM), address, job]
    return subprocess.run(words, env={"HOME": str(home), **env}, capture_output=True, text=True, timeout=120)


def test_a_job_that_runs_is_stopped_and_waited_for(fake_ray: Any, job: Any, tmp_path: Path) -> None:
    done = end(fake_ray.address, "ajet_a", tmp_path, http_proxy="http://127.0.0.1:9")  # no proxy is asked for this host
    assert (done.returncode, done.stderr, job()) == (0, "", "STOPPED")
    assert fake_ray.jobs["ajet_b"].status == "RUNNING" and done.stdout.endswith(": stopped\n")


@pytest.mark.parametrize(("status", "said"), [("SUCCEEDED", "succeeded"), ("FAILED", "failed"), ("", "there is none")])
def test_a_job_that_is_over_is_left_alone(fake_ray: Any, job: Any, tmp_path: Path, status: str, said: str) -> None:
    fake_ray.jobs["ajet_a"].said["status"] = status
    name = "ajet_a" if status else "ajet_c"
    done = end("", name, tmp_path, RAY_ADDRESS=f"{fake_ray.address}/")
    assert (done.returncode, done.stdout.strip().endswith(said)) == (0, True)
    assert dict(fake_ray.asked) == {f"GET /api/jobs/{name}": 1}


@pytest.mark.parametrize("where", ["variable", "path", "home", "headers"])
def test_the_token_is_where_ray_looks_for_it(fake_ray: Any, job: Any, tmp_path: Path, where: str) -> None:
    fake_ray.token = "s3cret"
    (tmp_path / ".ray").mkdir()
    (tmp_path / "other").write_text("s3cret\n")
    if where == "home":
        (tmp_path / ".ray" / "auth_token").write_text("s3cret\n")
    given = {
        "variable": {"RAY_AUTH_TOKEN": "s3cret"},
        "path": {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "other")},
        "headers": {"RAY_JOB_HEADERS": '{"authorization": "Bearer s3cret"}'},
    }
    address = fake_ray.address.removeprefix("http://")
    done = end("", "ajet_a", tmp_path, RAY_API_SERVER_ADDRESS=address, **given.get(where, {}))
    assert (done.returncode, job()) == (0, "STOPPED"), done.stdout
    assert "s3cret" not in done.stdout


@pytest.mark.parametrize("hiccups", [["busy"], ["half", "busy", "half"]])
def test_a_hiccup_of_the_head_is_no_word_about_the_job(
    fake_ray: Any, job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hiccups: list[str]
) -> None:
    stop = fake_ray.stop

    def stumble(name: str) -> Any:
        fake_ray.hiccups = hiccups
        return stop(name)

    monkeypatch.setattr(fake_ray, "stop", stumble)
    done = end(fake_ray.address, "ajet_a", tmp_path)
    assert (done.returncode, done.stderr, hiccups) == (0, "", []) and done.stdout.endswith(": stopped\n")


def test_what_cannot_be_known_is_a_failure(fake_ray: Any, job: Any, tmp_path: Path) -> None:
    fake_ray.token = "s3cret"
    done = end(fake_ray.address, "ajet_a", tmp_path)
    assert (done.returncode, "could not be ended" in done.stdout, done.stderr) == (1, True, "")
    assert job() == "RUNNING"
    assert end("http://127.0.0.1:1", "ajet_a", tmp_path).returncode == 1
