"""Ray's Jobs API: our launcher's calls, beside the same calls of Ray's own client, in process and by `ray job`.

All three talk to one head of the benchmark's own. Ray's client is imported once, by a process of Ray's environment;
imports and interpreters are counted only where `ray job` is what is compared with. Without Ray (`make ray`), nothing.
"""

from __future__ import annotations

import json
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
    found: dict[str, list[list[float]]] = {"submit": [[], [], []], "poll": [[], [], []], "stop": [[], [], []]}
    with subprocess.Popen(words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sdk:
        assert sdk.stdin and sdk.stdout and sdk.stdout.readline()
        for _ in range(repeats):
            names = [f"bench_{uuid.uuid4().hex[:8]}" for _ in range(3)]
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
                samples[2].append(1000 * _timed(lambda what=what, name=names[2]: _by_command(what, name, head)))
        sdk.stdin.close()
    return [
        result
        for what, (own, client, command) in found.items()
        for result in (
            Result(
                f"Ray: {what} a job, in process",
                "Ray's own client, imported",
                own,
                client,
                GOAL,
                reached=_REACHED[what],
            ),
            Result(f"Ray: {what} a job, in process", f"`ray job {_VERB[what]}`", own, command, GOAL),
        )
    ]


_REACHED = {"submit": 0.58, "poll": 0.83, "stop": 1.04}
_VERB = {"submit": "submit --no-wait", "poll": "list", "stop": "stop --no-wait"}


def _job(name: str) -> Job:
    return Job(name, f"ajet_{name}", "bench", "/", ("sleep", "600"), "/", 600.0, 5.0)


def _timed(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def _by_command(what: str, name: str, head: Head) -> None:
    words = [str(RAY / "bin" / "python"), str(RAY / "bin" / "ray"), "job", *_VERB[what].split()]
    words += [f"--address={head.address}"]
    words += {"submit": [f"--submission-id={name}", "--", "sleep", "600"], "poll": [], "stop": [name]}[what]
    done = subprocess.run(words, env={**os.environ, **PLAIN}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, json.dumps(done.stderr[-500:])
