"""Ray's Jobs API: our launcher's calls, beside the same calls of Ray's own client.

Both talk to one head of the benchmark's own. Ray's client is imported once, by a process of Ray's environment, and its
import is not counted. Without Ray (`make ray`), nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable

from autoresearch.core.run.job_launcher import Handle, Job
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers.ray import RayLauncher
from tests.bench.result import Result
from tests.engines.ray.head import PLAIN, RAY, Head, missing

SDK = """
import json, sys, time
from ray.job_submission import JobSubmissionClient
client = JobSubmissionClient(sys.argv[1])
calls = {
    "submit": lambda name: client.submit_job(entrypoint="sleep 600", submission_id=name, metadata={"a": "b"}),
    "poll": lambda name: client.list_jobs(),
    "stop": lambda name: client.stop_job(name),
}
print("ready", flush=True)
for line in sys.stdin:
    what, name = line.split()
    began = time.monotonic()
    calls[what](name)
    print(time.monotonic() - began, flush=True)
"""
GOAL = 1.2
REACHED = {"submit": 0.87, "poll": 0.91, "stop": 1.04}


def run(repeats: int = 5) -> list[Result]:
    """Milliseconds of each call."""
    if why := missing():
        print(why, file=sys.stderr)
        return []
    head = Head()
    try:
        head.start()
        head.takes_jobs()
        return _measure(head, max(5, repeats))
    finally:
        head.end()


def _measure(head: Head, repeats: int) -> list[Result]:
    environ = {**os.environ, **PLAIN}
    launcher = RayLauncher(Target("ray", Kind.RAY, 1, {"address": head.address}), environ)
    python = str(RAY / "bin" / "python")
    words = [python, "-c", SDK, head.address]
    found: dict[str, list[list[float]]] = {"submit": [[], []], "poll": [[], []], "stop": [[], []]}
    with subprocess.Popen(words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sdk:
        assert sdk.stdin and sdk.stdout and sdk.stdout.readline()
        for _ in range(repeats):
            names = [f"bench_{uuid.uuid4().hex[:8]}" for _ in range(2)]
            mine, handle = _job(names[0]), Handle(names[0], f"ajet_{names[0]}")
            ours: dict[str, Callable[[], object]] = {
                "submit": lambda mine=mine: launcher.submit(mine),
                "poll": lambda handle=handle: launcher.poll([handle]),
                "stop": lambda handle=handle: launcher.stop(handle, hard=False),
            }
            for what, samples in found.items():
                samples[0].append(1000 * _timed(ours[what]))
                print(what, names[1], file=sdk.stdin, flush=True)
                samples[1].append(1000 * float(sdk.stdout.readline()))
        sdk.stdin.close()
    return [
        Result(f"Ray: {what} a job", "Ray's own client, imported", own, client, GOAL, reached=REACHED[what])
        for what, (own, client) in found.items()
    ]


def _job(name: str) -> Job:
    return Job(name, f"ajet_{name}", "bench", "/", ("sleep", "600"), "/", 600.0, 5.0)


def _timed(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began
