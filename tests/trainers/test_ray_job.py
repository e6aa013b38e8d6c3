"""`ray job submit`: who it is, who waits for it, and how it is stopped."""

from __future__ import annotations

import pytest

from autoresearch.trainers import ray_job

PLAIN = "ray job submit --address=http://h:1 --runtime-env-json='{}' -- python3 t.py --submission-id x --no-wait"


def test_a_job_is_found_and_named() -> None:
    job = ray_job.find(f"cd x && {PLAIN}")
    assert job == ray_job.RayJob("http://h:1", "", True)
    text = ray_job.named(PLAIN, "ajet_a")
    assert ray_job.find(text) == ray_job.RayJob("http://h:1", "ajet_a", True)
    assert ray_job.named(text, "ajet_b") == text
    assert text.replace(" --submission-id ajet_a", "", 1) == PLAIN


def test_a_command_over_two_lines() -> None:
    assert "submit --submission-id a \\\n" in ray_job.named("ray \\\n job submit \\\n -- python t.py", "a")
    job = ray_job.find("ray job submit --submission-id=a -- python t.py")
    assert job == ray_job.RayJob("", "a", True)
    named = ray_job.find("RAY_ADDRESS=http://h:2 ray job submit -- python t.py")
    assert named == ray_job.RayJob("http://h:2", "", True)


@pytest.mark.parametrize("command", ["python t.py", "ray start --head", "echo ray job submit", "ray job list"])
def test_no_job(command: str) -> None:
    assert ray_job.find(command) is None
    assert ray_job.named(command, "a") == command
    assert ray_job.lint(command) == ()


def test_lint() -> None:
    found = ray_job.lint("ray job submit --no-wait -- python t.py")
    assert [(f.code, f.severity.value) for f in found] == [
        ("ray_job_no_wait", "error"),
        ("ray_job_unnamed", "warning"),
    ]
    assert ray_job.lint("ray job submit --submission-id a -- python t.py --no-wait") == ()
