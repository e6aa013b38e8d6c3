"""`--launcher ray` from order to row, on a server that answers like Ray's head; `test_real_ray_launcher.py` is real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system


@pytest.fixture
def cluster(bench: Any, fake_ray: Any) -> Iterator[Any]:
    """The server, as `ray` of the bench's settings; whoever follows runs there, and shows logs, is ended."""
    block = {"address": fake_ray.address, "poll": "1s"}
    (bench.repo / "autoresearch.yaml").write_text(f"launchers: {json.dumps({'ray': block})}\n")
    yield fake_ray
    for process in bench.reaper.find():
        if " follow " in process.command or process.command.startswith("tail "):
            process.end()


def record(bench: Any, started: dict[str, Any]) -> dict[str, Any]:
    """Its exit record, once it is collected."""
    bench.until(lambda: list(Path(started["result_dir"]).rglob("finish.flag")))
    return dict(json.loads((Path(started["run_dir"]) / "exit.json").read_bytes()))


def test_a_follower_that_is_killed_between_submit_and_note(bench: Any, cluster: Any) -> None:
    """Exactly one job is found again, and a stop request gets to it."""
    words = ["run", bench.blueprint("long"), "--launcher", "ray:1", "--detach"]
    started = bench.ask(*words, AUTORESEARCH_FAILPOINT="follower.submitted:kill")
    name = f"ajet_{started['run']}"
    bench.until(lambda: name in cluster.jobs)
    bench.tmux("set-environment", "-gu", "AUTORESEARCH_FAILPOINT")  # the server was started with it
    bench.until(lambda: bench.ask("status", started["run"])["state"] == "running")
    assert list(cluster.jobs) == [name] and cluster.asked["POST /api/jobs/"] == 1
    bench.event(started["run_dir"], "first_step")
    bench.ask("stop", started["run"], "--reason", "enough")
    last = record(bench, started)
    assert (last["ending"], last["reason"]) == ("stopped", "enough")
    bench.until(lambda: not cluster.jobs)


def test_a_head_that_refuses_leaves_no_trace(bench: Any, cluster: Any) -> None:
    cluster.token = "of-today"
    before = bench.picture(".git")
    said = bench.ask("run", bench.blueprint("ok"), "--launcher", "ray:1", "--detach", check=6)
    assert said["error"]["code"] == "unauthorized" and "RAY_AUTH_TOKEN" in said["error"]["hint"]
    assert set(bench.picture(".git")) - {"repo/exp.md"} == set(before) - {"repo/exp.md"}
    assert not bench.git("branch", "--list", "autoresearch/*") and not bench.ask("status")["runs"]
